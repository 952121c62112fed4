//! The history of an episode: a record of each event, as lines of JSON, with times of one clock.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::plan::{Fault, Persistence};
use crate::register::RegisterAccess;

/// An event that a client process reports, one line each. Times are nanoseconds of the [clock](crate::clock).
///
/// A turn is one use of a lock by a client. It begins with `asked`, the request for the lock. `until` is the end of the
/// validity, as far as the client knows. A client reports `released` before it sends the release, because another client
/// may get the lock at once. `revived` means that a lease is valid again after it was `lost`. `sent` counts the requests
/// since the previous turn, and how many of these requests shared a command with other requests (`batched`). `gave-up`
/// means that the acquire failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the enum's comment explains the fields")]
pub enum Event {
    Asked { turn: u32, name: String, at: u64 },
    Granted { turn: u32, at: u64, until: u64, fence: Option<u64> },
    Extended { turn: u32, at: u64, until: u64 },
    Released { turn: u32, at: u64 },
    Lost { turn: u32, at: u64 },
    Revived { turn: u32, at: u64 },
    Sent { turn: u32, requests: u64, batched: u64 },
    GaveUp { turn: u32, at: u64, why: String },
}

/// One record of a history.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the types of the fields are documented")]
pub enum Record {
    Client {
        client: u32,
        #[serde(flatten)]
        event: Event,
    },
    Register(RegisterAccess),
    /// A fault begins.
    Fault {
        at: u64,
        fault: Fault,
        /// The persistence of each server that the fault hits.
        persistence: Vec<Persistence>,
    },
    /// The harness killed a client process, because of a fault of the plan, or because the process did not end in time.
    Killed {
        at: u64,
        client: u32,
    },
    /// A client process crashed, exited too early or printed an invalid event.
    Broken {
        client: u32,
        why: String,
    },
    /// All faults of the plan have ended.
    FaultsEnded {
        at: u64,
    },
    /// A `quorlock run` exited.
    RunEnded {
        at: u64,
        client: u32,
        code: i32,
        /// The first line of its stderr.
        message: String,
    },
    /// The sentinel announced another master.
    FailedOver {
        at: u64,
    },
    /// The operator initialized the cluster again, because a majority of its nodes had lost their memory.
    InitializedAgain {
        at: u64,
    },
}

/// A history that is being written.
#[derive(Debug)]
pub struct History {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    records: Vec<Record>,
    file: BufWriter<File>,
}

impl History {
    /// Creates a history that also writes its records to this file.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Self { inner: Mutex::new(Inner { records: Vec::new(), file }) })
    }

    /// Adds a record.
    pub fn record(&self, record: Record) {
        let mut inner = self.inner();
        if let Ok(line) = serde_json::to_string(&record) {
            // `finish` reports a full disk.
            let _ = writeln!(inner.file, "{line}");
        }
        inner.records.push(record);
    }

    /// Flushes the file and returns all records.
    ///
    /// # Errors
    /// When the file could not be written completely.
    pub fn finish(&self) -> io::Result<Vec<Record>> {
        let mut inner = self.inner();
        inner.file.flush()?;
        Ok(std::mem::take(&mut inner.records))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
