//! What the locks protect: two cells for each name, one that checks fences and one that does not.
//!
//! A turn reads a cell, thinks, and writes it back. A write that does not know of the version before it has undone
//! somebody's work: in the bare cell that happens whenever two work at a time. The fenced cell refuses whoever comes with
//! a lower fence than it has seen, and must never be harmed.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::history::{History, Record};

/// What a client sends, in a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Who.
    pub client: u32,
    /// In which of its turns.
    pub turn: u32,
    /// Which cells.
    pub name: String,
    /// Without one only the bare cell is used.
    pub fence: Option<u64>,
    /// Read, or write back what was read.
    pub write: Option<Versions>,
}

/// The versions of both cells. What a read answers, and what a write has to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Without a check.
    pub bare: u64,
    /// With a check of fences; `None` without a fence, or when it was refused.
    pub fenced: Option<u64>,
}

/// What the register did.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// When.
    pub at: u64,
    /// For whom.
    pub client: u32,
    /// In which of its turns.
    pub turn: u32,
    /// Whether it was a write.
    pub is_write: bool,
    /// What the fenced cell made of it.
    pub fenced: Option<Outcome>,
    /// What the bare cell made of it.
    pub bare: Outcome,
}

/// What a cell made of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Done.
    Done,
    /// Refused: it has seen a higher fence.
    Refused,
    /// Done, and somebody else's work undone with it.
    Overwrote,
}

#[derive(Debug, Default)]
struct Cells {
    bare: u64,
    fenced: u64,
    highest: u64,
}

impl Cells {
    fn apply(&mut self, request: &Request) -> (Versions, Option<Outcome>, Outcome) {
        let admitted = request.fence.map(|fence| fence >= self.highest);
        if admitted == Some(true) {
            self.highest = request.fence.unwrap_or_default();
        }
        let Some(known) = request.write else {
            let seen = Versions { bare: self.bare, fenced: (admitted == Some(true)).then_some(self.fenced) };
            let fenced = admitted.map(|admitted| if admitted { Outcome::Done } else { Outcome::Refused });
            return (seen, fenced, Outcome::Done);
        };
        let bare = write(&mut self.bare, known.bare);
        let fenced = match (admitted, known.fenced) {
            (Some(true), Some(version)) => Some(write(&mut self.fenced, version)),
            // Whoever could not read has nothing to write.
            (Some(_), _) => Some(Outcome::Refused),
            (None, _) => None,
        };
        (Versions { bare: self.bare, fenced: None }, fenced, bare)
    }
}

fn write(cell: &mut u64, known: u64) -> Outcome {
    let outcome = if *cell == known { Outcome::Done } else { Outcome::Overwrote };
    *cell += 1;
    outcome
}

/// A register that listens on the loopback until it is dropped.
#[derive(Debug)]
pub struct Register {
    addr: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Register {
    /// Serves clients, and notes what it does.
    ///
    /// # Errors
    /// When there is no port for it.
    pub fn start(history: Arc<History>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let cells = Arc::new(Mutex::new(BTreeMap::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("register".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (cells, history) = (Arc::clone(&cells), Arc::clone(&history));
                // A client that is gone, or talks nonsense, is served no longer.
                thread::spawn(move || drop(serve(&stream, &cells, &history)));
            }
        })?;
        Ok(Self { addr, is_over, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then ends.
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
            // What is noted has the order of what was done.
            let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
            let (versions, fenced, bare) = cells.entry(request.name.clone()).or_default().apply(&request);
            let Request { client, turn, write, .. } = request;
            let entry = Entry { at: clock::now(), client, turn, is_write: write.is_some(), fenced, bare };
            history.note(Record::Register(entry));
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
