//! A wall clock that tests can move, for any program that is not statically linked.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;

use crate::shim;

const SHIM_SOURCE: &str = include_str!("clock_shim.c");

/// The wall clock of every process started with its [`envs`](Self::envs).
///
/// Clones move the same clock. Monotonic clocks do not change.
#[derive(Debug, Clone)]
pub struct Clock {
    shim: PathBuf,
    /// The control file, which the comment in the shim explains.
    control: Arc<Mutex<NamedTempFile>>,
}

impl Clock {
    /// A clock that shows the real time until it is moved.
    #[expect(clippy::new_without_default, reason = "it compiles and writes files")]
    pub fn new() -> Self {
        let control = NamedTempFile::with_prefix("quorlock-clock-").expect("the clock's control file can be created");
        let clock = Self { shim: shim::compile("clock", SHIM_SOURCE), control: Arc::new(Mutex::new(control)) };
        clock.set_offset_micros(0);
        clock
    }

    /// Makes the clock run `offset` microseconds ahead of the real time.
    pub fn set_offset_micros(&self, offset: i64) {
        self.write(offset << 1);
    }

    /// Stops the clock at `micros` microseconds after the epoch.
    pub fn freeze_at_micros(&self, micros: i64) {
        self.write(micros << 1 | 1);
    }

    /// The environment variables that put a process under this clock.
    ///
    /// The process must start while this clock or a clone of it lives.
    pub fn envs(&self) -> Vec<(String, String)> {
        let control = self.control.lock().expect("no writer panics");
        vec![shim::preload(&self.shim), ("QUORLOCK_CLOCK_FILE".to_owned(), shim::path_text(control.path()))]
    }

    /// Writes the control word twice. The comment in the shim explains why, and the order of the two copies.
    fn write(&self, word: i64) {
        let control = self.control.lock().expect("no writer panics");
        for offset in [0, 8] {
            control
                .as_file()
                .write_all_at(&word.to_ne_bytes(), offset)
                .expect("the clock's control file can be written");
        }
    }
}
