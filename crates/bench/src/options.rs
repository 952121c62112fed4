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
    /// The length of a turn, in cases that measure for a fixed time.
    pub(crate) turn_length: Duration,
    /// The number of operations in a turn, in cases that measure a number of operations.
    pub(crate) operations_per_turn: usize,
    /// The runtime for cases that run in this process.
    pub(crate) runtime: Arc<Runtime>,
    /// The folder for builds and results.
    pub(crate) folder: PathBuf,
}

impl Options {
    pub(crate) fn new(turn_length: Duration, operations_per_turn: usize) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let program = std::env::current_exe()?;
        let target = program.parent().and_then(|folder| folder.parent()).ok_or("no folder for builds")?;
        Ok(Self { turn_length, operations_per_turn, runtime: Arc::new(runtime), folder: target.join("bench") })
    }

    /// The path of the file with the latest figures of every case.
    pub(crate) fn report_file(&self) -> PathBuf {
        self.folder.join("report.json")
    }
}
