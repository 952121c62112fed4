//! A disk that tests can make slow, for any program that is not statically linked.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::shim;

const SHIM_SOURCE: &str = include_str!("disk_shim.c");

/// The disk of every process started with its [`envs`](Self::envs). Clones are the same disk.
#[derive(Debug, Clone)]
pub struct Disk {
    shim: PathBuf,
    /// The control file, which the comment in the shim explains.
    control: Arc<NamedTempFile>,
}

impl Disk {
    /// A disk at its real speed.
    #[expect(clippy::new_without_default, reason = "it compiles and writes files")]
    pub fn new() -> Self {
        let control = NamedTempFile::with_prefix("quorlock-disk-").expect("the disk's control file can be created");
        let disk = Self { shim: shim::compile("disk", SHIM_SOURCE), control: Arc::new(control) };
        disk.slow_syncs(Duration::ZERO);
        disk
    }

    /// From now on, every sync takes this time longer.
    pub fn slow_syncs(&self, extra: Duration) {
        let micros = extra.as_micros() as i64;
        self.control.as_file().write_all_at(&micros.to_ne_bytes(), 0).expect("the disk's control file can be written");
    }

    /// The environment variables that put a process on this disk.
    ///
    /// The process must start while this disk or a clone of it lives.
    pub fn envs(&self) -> Vec<(String, String)> {
        vec![shim::preload(&self.shim), ("QUORLOCK_DISK_FILE".to_owned(), shim::path_text(self.control.path()))]
    }
}
