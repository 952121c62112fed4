//! The registers that the locks protect, and the server that serves them. For each name there is a *fenced* register,
//! which checks fences, and a *bare* register, which does not.
//!
//! A register stores only a version, which grows with each write. A client reads the version, pauses, and writes the
//! version back. If the version has changed since the client read it, the write overwrites a value that the client has
//! not read (a lost update). This happens in the bare register if two clients work at the same time. The fenced register
//! refuses a fence that is lower than the highest fence so far, so it must lose no update.

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
    /// The name of the registers.
    pub name: String,
    /// The fence. Without a fence, the request uses only the bare register.
    pub fence: Option<u64>,
    /// The versions that the client has read, in a write; `None` in a read.
    pub write: Option<Versions>,
}

/// The versions of both registers of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The version of the bare register.
    pub bare: u64,
    /// The version of the fenced register; `None` without a fence, or if the fence was refused.
    pub fenced: Option<u64>,
}

/// A request that the server has served.
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
    /// The outcome in the fenced register; `None` without a fence.
    pub fenced: Option<AccessOutcome>,
    /// The outcome in the bare register.
    pub bare: AccessOutcome,
}

/// The outcome of a request in one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessOutcome {
    /// The client read the register, or wrote it and had read the value that it replaced.
    Done,
    /// The register has seen a higher fence.
    Refused,
    /// The write replaced a value that the client had not read.
    Overwrote,
}

/// The versions of both registers of a name.
#[derive(Debug, Default)]
struct Registers {
    bare: u64,
    fenced: u64,
    highest_fence: u64,
}

impl Registers {
    /// Serves a request. Returns the reply, the outcome in the fenced register and the outcome in the bare register.
    fn apply(&mut self, request: &Request) -> (Versions, Option<AccessOutcome>, AccessOutcome) {
        let is_fence_accepted = request.fence.map(|fence| fence >= self.highest_fence);
        if is_fence_accepted == Some(true) {
            self.highest_fence = request.fence.unwrap_or_default();
        }
        let Some(versions_read) = request.write else {
            let reply = Versions { bare: self.bare, fenced: (is_fence_accepted == Some(true)).then_some(self.fenced) };
            let fenced = is_fence_accepted
                .map(|is_accepted| if is_accepted { AccessOutcome::Done } else { AccessOutcome::Refused });
            return (reply, fenced, AccessOutcome::Done);
        };
        let bare = write(&mut self.bare, versions_read.bare);
        let fenced = match (is_fence_accepted, versions_read.fenced) {
            (Some(true), Some(version_read)) => Some(write(&mut self.fenced, version_read)),
            // A refused read returned no version to write back.
            (Some(_), _) => Some(AccessOutcome::Refused),
            (None, _) => None,
        };
        (Versions { bare: self.bare, fenced: None }, fenced, bare)
    }
}

fn write(register: &mut u64, version_read: u64) -> AccessOutcome {
    let outcome = if *register == version_read { AccessOutcome::Done } else { AccessOutcome::Overwrote };
    *register += 1;
    outcome
}

/// A server of registers, which listens on the loopback address until it is dropped.
#[derive(Debug)]
pub struct RegisterServer {
    addr: SocketAddr,
    is_dropped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RegisterServer {
    /// Starts to serve clients. Records every request in the history.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(history: Arc<History>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let registers = Arc::new(Mutex::new(BTreeMap::new()));
        let is_dropped = Arc::new(AtomicBool::new(false));
        let must_end = Arc::clone(&is_dropped);
        let thread = thread::Builder::new().name("registers".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                if must_end.load(Ordering::SeqCst) {
                    return;
                }
                let (registers, history) = (Arc::clone(&registers), Arc::clone(&history));
                // A client that disconnects or sends invalid requests is no longer served.
                thread::spawn(move || drop(serve(&stream, &registers, &history)));
            }
        })?;
        Ok(Self { addr, is_dropped, thread: Some(thread) })
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for RegisterServer {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::SeqCst);
        // The connection wakes the listening thread, so that it can end.
        if TcpStream::connect(self.addr).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn serve(stream: &TcpStream, registers: &Mutex<BTreeMap<String, Registers>>, history: &History) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream;
    for line in BufReader::new(stream).lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let versions = {
            // The registers stay locked while the access is recorded, so that the history has the order of the requests.
            let mut registers = registers.lock().unwrap_or_else(PoisonError::into_inner);
            let (versions, fenced, bare) = registers.entry(request.name.clone()).or_default().apply(&request);
            let Request { client, turn, write, .. } = request;
            let access = RegisterAccess { at: clock::now(), client, turn, is_write: write.is_some(), fenced, bare };
            history.record(Record::Register(access));
            versions
        };
        let mut reply = serde_json::to_vec(&versions)?;
        reply.push(b'\n');
        output.write_all(&reply)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
