//! Options of a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::Failure;

/// The path of the `quorlock` command, which `./x bench` has built.
pub(crate) fn quorlock() -> Result<PathBuf, Failure> {
    let quorlock = std::env::current_exe()?.with_file_name("quorlock");
    if !quorlock.is_file() {
        return Err(format!("{} is missing: cargo build --release", quorlock.display()).into());
    }
    Ok(quorlock)
}

/// The settings of every case.
pub(crate) struct Options {
    /// Length of a turn, for cases that run for a time.
    pub(crate) length: Duration,
    /// Measurements per turn, for the other cases.
    pub(crate) each: usize,
    /// The runtime for cases that run in this process.
    pub(crate) runtime: Arc<Runtime>,
    /// The folder in which peers are built.
    pub(crate) folder: PathBuf,
}

impl Options {
    pub(crate) fn new(length: Duration, each: usize) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let program = std::env::current_exe()?;
        let target = program.parent().and_then(|folder| folder.parent()).ok_or("no folder for builds")?;
        Ok(Self { length, each, runtime: Arc::new(runtime), folder: target.join("bench") })
    }

    /// The file with the latest figures of every case.
    pub(crate) fn figures(&self) -> PathBuf {
        self.folder.join("report.json")
    }
}
