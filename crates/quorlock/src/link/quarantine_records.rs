//! Measures how much of a node's quarantine has surely passed, by the clocks of this host.
//!
//! A node reports how much of its quarantine has passed. A client that received such a report may later claim that the
//! quarantine has lasted for the reported time plus the time since the report arrived. Records in the host's state
//! folder pass the report from one process to the next, so that the time between two short-lived processes is included.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorlock_core::node::{Epoch, Incarnation};
use quorlock_core::vote::Silence;

use crate::platform::clock::{self, Stopwatch};
use crate::platform::entropy;
use crate::platform::sync::Mutex;

/// The number of records that a folder keeps: the newest ones.
const RECORDS_MAX: usize = 256;
/// The first line of every record: the format and its version.
const TITLE: &str = "quorlock quarantine 1";

/// Returns why a quarantined node does not vote.
pub(crate) fn silence(life: &Incarnation) -> Silence {
    let left = life.quarantine_left();
    if life.is_founding() { Silence::Founding(left) } else { Silence::Quarantined(left) }
}

/// A node's report of how much of its quarantine has passed, and a stopwatch that was started when the report arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElapsedReport {
    elapsed_micros: u64,
    since: Stopwatch,
}

impl ElapsedReport {
    /// Starts the stopwatch of a report that has just arrived.
    pub(crate) fn new(elapsed_micros: u64) -> Self {
        Self { elapsed_micros, since: Stopwatch::start() }
    }

    /// Returns how much of the quarantine has surely passed by now.
    pub(crate) fn claim(self) -> u64 {
        let since = u64::try_from(self.since.at_least().as_micros()).unwrap_or(u64::MAX);
        self.elapsed_micros.saturating_add(since)
    }

    /// Returns the report that allows the higher claim.
    pub(crate) fn better(self, other: Self) -> Self {
        if other.claim() > self.claim() { other } else { self }
    }

    fn encode(self, epoch: Epoch, clocks: &str) -> String {
        let (boot, raw) = self.since.started();
        let elapsed = self.elapsed_micros;
        let text =
            format!("{TITLE}\nepoch {:032x}\nclocks {clocks}\nboot {boot}\nraw {raw}\nelapsed {elapsed}\n", epoch.0);
        format!("{text}sum {:016x}\n", checksum(&text))
    }

    /// Reads a record. Returns `None` if the record is damaged, is about another epoch (life of the node's memory), or
    /// comes from clocks that have been reset since.
    fn decode(text: &str, epoch: Epoch, clocks: &str) -> Option<Self> {
        let number = |name| text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok();
        let since = Stopwatch::resume(number("boot ")?, number("raw ")?)?;
        let report = Self { elapsed_micros: number("elapsed ")?, since };
        // The rest of an undamaged record follows from these three numbers, the epoch and the clocks.
        (report.encode(epoch, clocks) == text).then_some(report)
    }
}

/// Returns the FNV-1a hash, which detects damaged records.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The folder of this host's records, if there is one. Clones share the folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    folder: Option<Arc<Path>>,
    /// Why the last record could not be written.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Records {
    /// Keeps records in this state folder.
    pub(crate) fn new(state_folder: Option<&Path>) -> Self {
        Self { folder: state_folder.map(|folder| folder.join("quarantine").into()), trouble: Arc::default() }
    }

    /// Returns why the folder cannot be used. Returns `None` if it can be used, if it was not needed yet, or if there
    /// is no folder.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Remembers why the folder cannot be used, and logs a warning once.
    pub(crate) fn note_trouble(&self, why: impl std::fmt::Display) {
        let Some(folder) = &self.folder else { return };
        let text = format!("cannot use {}: {why}", folder.display());
        if self.trouble.lock().replace(text.clone()).is_none() {
            tracing::warn!("{text}; the time of a quarantine counts only while a client is connected");
        }
    }

    /// Returns the recorded report if it allows at least the claim that `reported` allows. If it does not, records
    /// `reported` and returns `None`.
    ///
    /// This call may block on the disk.
    pub(crate) fn resume(&self, epoch: Epoch, reported: ElapsedReport) -> Option<ElapsedReport> {
        let Some(clocks) = clock::identity() else {
            self.note_trouble("the clocks of this host cannot be identified");
            return None;
        };
        let recorded = self.read(epoch).and_then(|text| ElapsedReport::decode(&text, epoch, &clocks));
        if let Some(recorded) = recorded.filter(|recorded| recorded.claim() >= reported.claim()) {
            return Some(recorded);
        }
        match self.write(epoch, &reported.encode(epoch, &clocks)) {
            Ok(()) => *self.trouble.lock() = None,
            Err(error) => self.note_trouble(error),
        }
        None
    }

    /// Removes the record of a quarantine that is over. This call may block on the disk.
    pub(crate) fn remove(&self, epoch: Epoch) {
        if let Some(path) = self.path(epoch) {
            // Ignore a failure: another process may have removed the record already, and a stale record is harmless.
            let _ = fs::remove_file(path);
        }
    }

    fn path(&self, epoch: Epoch) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("{:032x}", epoch.0)))
    }

    fn read(&self, epoch: Epoch) -> Option<String> {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::platform::sim::world() {
            return world.recorded(epoch);
        }
        fs::read_to_string(self.path(epoch)?).ok()
    }

    /// Writes a record atomically.
    fn write(&self, epoch: Epoch, text: &str) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some(world) = crate::platform::sim::world() {
            world.record(epoch, text.to_owned());
            return Ok(());
        }
        let (Some(folder), Some(path)) = (&self.folder, self.path(epoch)) else { return Ok(()) };
        fs::create_dir_all(folder)?;
        prune(folder)?;
        let temporary = folder.join(format!("{:032x}.new", entropy::bits()));
        let written = fs::File::create_new(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Deletes old records to make room for another.
fn prune(folder: &Path) -> io::Result<()> {
    let is_ours = |name: &OsStr| name.to_str().is_some_and(|name| name.trim_end_matches(".new").len() == 32);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_ours(&entry.file_name()) {
            files.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    files.sort_unstable();
    let surplus = (files.len() + 1).saturating_sub(RECORDS_MAX);
    for (_, path) in files.into_iter().take(surplus) {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
