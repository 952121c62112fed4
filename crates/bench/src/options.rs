//! How to measure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::Failure;

/// The program that people use: built before this one, beside it.
pub(crate) fn quorlock() -> Result<PathBuf, Failure> {
    let quorlock = std::env::current_exe()?.with_file_name("quorlock");
    if !quorlock.is_file() {
        return Err(format!("{} is missing: cargo build --release", quorlock.display()).into());
    }
    Ok(quorlock)
}

/// What every case is set up with.
pub(crate) struct Options {
    /// How long a turn takes, where that can be said.
    pub(crate) length: Duration,
    /// How many measurements make up a turn, where it is not a time.
    pub(crate) each: usize,
    /// For what is measured in this process.
    pub(crate) runtime: Arc<Runtime>,
    /// Where peers are built and fetched to.
    pub(crate) folder: PathBuf,
}

impl Options {
    pub(crate) fn new(length: Duration, each: usize) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // Beside the profile's own folder.
        let program = std::env::current_exe()?;
        let target = program.parent().and_then(|folder| folder.parent()).ok_or("no folder for builds")?;
        Ok(Self { length, each, runtime: Arc::new(runtime), folder: target.join("bench") })
    }

    /// The last figures of every case.
    pub(crate) fn figures(&self) -> PathBuf {
        self.folder.join("report.json")
    }
}
