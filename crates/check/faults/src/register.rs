//! The resource that the locks protect. For each name it has a fenced cell, which checks fences, and a bare cell, which
//! does not.
//!
//! A client reads a cell, pauses, and writes the cell back. A write with an older version than that of the cell
//! overwrites another client's write. This can happen in the bare cell if two clients work at the same time. The fenced
//! cell refuses a fence that is lower than the highest fence so far, so no write to it may be overwritten.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::history::{History, Record};

/// A client's request, as a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The number of the client.
    pub client: u32,
    /// The client's turn.
    pub turn: u32,
    /// The name of the cells.
    pub name: String,
    /// The fence. Without a fence, the request uses only the bare cell.
    pub fence: Option<u64>,
    /// The versions to write back; `None` for a read.
    pub write: Option<Versions>,
}

/// The versions of both cells: the reply to a read, and the base of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The version of the bare cell.
    pub bare: u64,
    /// The version of the fenced cell; `None` without a fence, or if the fence was refused.
    pub fenced: Option<u64>,
}

/// A request that the register has served.
#[derive(Clone, Debug, Serialize)]
pub struct RegisterAccess {
    /// The time of the request.
    pub at: u64,
    /// The number of the client.
    pub client: u32,
    /// The client's turn.
    pub turn: u32,
    /// Whether the request was a write.
    pub is_write: bool,
    /// The outcome in the fenced cell.
    pub fenced: Option<Outcome>,
    /// The outcome in the bare cell.
    pub bare: Outcome,
}

/// The outcome of a request in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The cell was read, or written without a conflict.
    Done,
    /// Refused: the cell has seen a higher fence.
    Refused,
    /// The write has overwritten another client's write.
    Overwrote,
}

#[derive(Debug, Default)]
struct Cells {
    bare: u64,
    fenced: u64,
    highest_fence: u64,
}

impl Cells {
    fn apply(&mut self, request: &Request) -> (Versions, Option<Outcome>, Outcome) {
        let is_fence_accepted = request.fence.map(|fence| fence >= self.highest_fence);
        if is_fence_accepted == Some(true) {
            self.highest_fence = request.fence.unwrap_or_default();
        }
        let Some(version_read) = request.write else {
            let seen = Versions { bare: self.bare, fenced: (is_fence_accepted == Some(true)).then_some(self.fenced) };
            let fenced = is_fence_accepted
                .map(|is_fence_accepted| if is_fence_accepted { Outcome::Done } else { Outcome::Refused });
            return (seen, fenced, Outcome::Done);
        };
        let bare = write(&mut self.bare, version_read.bare);
        let fenced = match (is_fence_accepted, version_read.fenced) {
            (Some(true), Some(version)) => Some(write(&mut self.fenced, version)),
            // A refused read returned no version to write back.
            (Some(_), _) => Some(Outcome::Refused),
            (None, _) => None,
        };
        (Versions { bare: self.bare, fenced: None }, fenced, bare)
    }
}

fn write(cell: &mut u64, version_read: u64) -> Outcome {
    let outcome = if *cell == version_read { Outcome::Done } else { Outcome::Overwrote };
    *cell += 1;
    outcome
}

/// A register that listens on the loopback address until it is dropped.
#[derive(Debug)]
pub struct Register {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Register {
    /// Starts to serve clients, and records every request.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(history: Arc<History>) -> io::Result<Self> {
        let output_reader = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = output_reader.local_addr()?;
        let cells = Arc::new(Mutex::new(BTreeMap::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let results_of_runs = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("register".into()).spawn(move || {
            for stream in output_reader.incoming().flatten() {
                if results_of_runs.load(Ordering::SeqCst) {
                    return;
                }
                let (cells, history) = (Arc::clone(&cells), Arc::clone(&history));
                // A client that disconnects or sends invalid requests is no longer served.
                thread::spawn(move || drop(serve(&stream, &cells, &history)));
            }
        })?;
        Ok(Self { addr, is_over, thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listening thread, so that it can end.
        if TcpStream::connect(self.addr).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn serve(stream: &TcpStream, cells: &Mutex<BTreeMap<String, Cells>>, history: &History) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream;
    for line in BufReader::new(stream).lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let versions = {
            // The cells stay locked while the access is recorded, so that the history has the order of the requests.
            let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
            let (versions, fenced, bare) = cells.entry(request.name.clone()).or_default().apply(&request);
            let Request { client, turn, write, .. } = request;
            let entry = RegisterAccess { at: clock::now(), client, turn, is_write: write.is_some(), fenced, bare };
            history.record(Record::Register(entry));
            versions
        };
        let mut answer = serde_json::to_vec(&versions)?;
        answer.push(b'\n');
        output.write_all(&answer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
