//! Everything that was said and done, by one clock, as lines of JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::plan::{Deed, Memory};
use crate::register::Entry;

/// What a client process tells, one line each. Moments are nanoseconds of the [clock](crate::clock).
///
/// A turn begins with `asked`. `until` is how long the lease is surely valid, as far as the client knows; `released` is
/// told before the lock is given back, so that nobody can have it earlier. `revived` is a lease that is valid again after it was
/// `lost`. `sent` is what has gone to servers since the turn before, and how much of it in one command with other requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are the same throughout")]
pub enum Event {
    Asked { turn: u32, name: String, at: u64 },
    Granted { turn: u32, at: u64, until: u64, fence: Option<u64> },
    Extended { turn: u32, at: u64, until: u64 },
    Released { turn: u32, at: u64 },
    Lost { turn: u32, at: u64 },
    Revived { turn: u32, at: u64 },
    Sent { turn: u32, requests: u64, together: u64 },
    GaveUp { turn: u32, at: u64, why: String },
}

/// One line of a history.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each says it in its own type")]
pub enum Record {
    Client {
        client: u32,
        #[serde(flatten)]
        event: Event,
    },
    Register(Entry),
    /// A fault begins.
    Fault {
        at: u64,
        deed: Deed,
        /// How each of the servers that it is done to keeps what it knows.
        memories: Vec<Memory>,
    },
    /// A client process was killed, by the plan or because the time was over.
    Killed {
        at: u64,
        client: u32,
    },
    /// A client process ended although it was not asked to.
    Broken {
        client: u32,
        why: String,
    },
    /// The plan is over, and everything is as it should be again.
    Healed {
        at: u64,
    },
    /// A `quorlock run` ended by itself.
    Ran {
        at: u64,
        client: u32,
        code: i32,
        /// The first line of its messages.
        message: String,
    },
    /// The sentinel named another master.
    Switched {
        at: u64,
    },
    /// The operator declared the cluster anew, because a majority of its nodes was blank.
    Declared {
        at: u64,
    },
}

/// A history while it is written.
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
    /// Writes to this file as well.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Self { inner: Mutex::new(Inner { records: Vec::new(), file }) })
    }

    /// Adds a line.
    pub fn note(&self, record: Record) {
        let mut inner = self.inner();
        if let Ok(line) = serde_json::to_string(&record) {
            // A full disk shows when the history is finished.
            let _ = writeln!(inner.file, "{line}");
        }
        inner.records.push(record);
    }

    /// All lines, when nobody adds any more.
    ///
    /// # Errors
    /// When not all of them could be written.
    pub fn finish(&self) -> io::Result<Vec<Record>> {
        let mut inner = self.inner();
        inner.file.flush()?;
        Ok(std::mem::take(&mut inner.records))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
