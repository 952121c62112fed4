//! A worker that locks over HTTP. It has one thread, and a persistent connection for each caller. It does little work, so
//! that the figures measure the service: it prepares requests in advance, and parses replies only as far as necessary.

mod reply;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use super::{Task, run_turns};
use crate::cycles::Cycles;
use crate::{Failure, Outcome};
use reply::Reply;

/// The size of the buffer for a reply. It is larger than any expected reply.
const REPLY_MAX: usize = 8 * 1024;

/// Runs all callers concurrently until stdin ends. The task's only node is the address of the service.
pub(crate) fn work(task: &Task) -> Outcome {
    run_turns(|length| {
        let mut connections = connect(task)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, connection) in connections.iter().enumerate() {
            epoll::add(&epoll, &connection.stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        }
        let (begun, mut cycles) = (Instant::now(), Cycles::default());
        let mut ready = Vec::with_capacity(connections.len());
        let mut unfinished_callers = connections.len();
        for connection in &mut connections {
            connection.begin()?;
        }
        // Complete every cycle, so that no lock is left held.
        while unfinished_callers > 0 {
            epoll::wait(&epoll, spare_capacity(&mut ready), None)?;
            for event in ready.drain(..) {
                let Some(connection) = connections.get_mut(event.data.u64() as usize) else { continue };
                if !connection.read_reply()? {
                    continue;
                }
                cycles.record_success(connection.begun);
                if begun.elapsed() < length {
                    connection.begin()?;
                } else {
                    unfinished_callers -= 1;
                }
            }
        }
        Ok(cycles.figures(begun.elapsed()))
    })
}

/// Connects all callers. This is done for every turn, because the service closes idle connections.
fn connect(task: &Task) -> Result<Vec<Connection>, Failure> {
    let address = task.nodes.first().ok_or("no service")?;
    let callers = task.first_caller..task.first_caller + task.callers;
    callers.map(|caller| Connection::open(address, format!("load/{caller:06}"), task.ttl_ms)).collect()
}

/// One caller, which acquires and releases.
struct Connection {
    stream: TcpStream,
    name: String,
    acquire: Vec<u8>,
    release: Vec<u8>,
    received: Vec<u8>,
    /// Whether the caller holds the lock, so that the next reply is that of the release.
    is_held: bool,
    begun: Instant,
}

impl Connection {
    fn open(address: &str, name: String, ttl_ms: u64) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut acquire = Vec::new();
        write_request(&mut acquire, "/v1/leases", &format!(r#"{{"name":"{name}","ttl_ms":{ttl_ms}}}"#))?;
        let (release, received) = (Vec::new(), Vec::with_capacity(REPLY_MAX));
        Ok(Self { stream, name, acquire, release, received, is_held: false, begun: Instant::now() })
    }

    fn begin(&mut self) -> Outcome {
        self.begun = Instant::now();
        Ok(self.stream.write_all(&self.acquire)?)
    }

    /// Reads the reply, and returns whether the cycle is over.
    fn read_reply(&mut self) -> Result<bool, Failure> {
        let length = self.received.len();
        self.received.resize(REPLY_MAX, 0);
        let read = self.stream.read(&mut self.received[length..])?;
        self.received.truncate(length + read);
        if read == 0 {
            return Err("the service closed the connection".into());
        }
        let Some(reply) = Reply::read(&self.received)? else { return Ok(false) };
        match (self.is_held, reply.status) {
            (false, 201) => {
                let lease = reply.string_field("lease_id").ok_or("a grant without a lease_id")?;
                self.release.clear();
                let body = format!(r#"{{"name":"{}","lease_id":"{lease}"}}"#, self.name);
                write_request(&mut self.release, "/v1/leases/release", &body)?;
                self.stream.write_all(&self.release)?;
            }
            (true, 204) => {}
            _ => return Err(format!("unexpected reply {}: {}", reply.status, reply.body).into()),
        }
        self.received.clear();
        self.is_held = !self.is_held;
        Ok(!self.is_held)
    }
}

fn write_request(request: &mut Vec<u8>, path: &str, body: &str) -> std::io::Result<()> {
    let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length";
    write!(request, "POST {path} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len())
}
