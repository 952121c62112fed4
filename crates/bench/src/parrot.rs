//! The floor of load over HTTP: somebody who reads a request and answers at once, with what was written down beforehand. What
//! is left are the wake-ups, and the system's own work for a message there and back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Failure, Outcome};

/// About as long as that of a service.
const LEASE: &str = r#"{"lease_id":"00000000000000000000000000000000000000000000000000000000000000000000000000000000","name":"load/000000","fence":1700000000000000,"validity_ms":26998,"server_elapsed_ms":0,"ttl_ms":30000,"mode":"exclusive"}"#;
const RELEASED: &str = "HTTP/1.1 204 No Content\r\n\r\n";
/// Longer than any request that is expected.
const REQUEST_MAX: usize = 8 * 1024;

/// One thread, for one caller at a time.
pub(crate) struct Parrot {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Parrot {
    pub(crate) fn start() -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let parrot = Self { address: listener.local_addr()?, is_over: Arc::default() };
        let is_over = Arc::clone(&parrot.is_over);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::Acquire) {
                    return;
                }
                // Whoever has hung up is done.
                let _ = stream.map_err(Into::into).and_then(answer);
            }
        });
        Ok(parrot)
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Parrot {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // It waits for the next caller.
        let _ = TcpStream::connect(self.address);
    }
}

/// A caller writes each request in one piece, and waits for the answer.
fn answer(mut stream: TcpStream) -> Outcome {
    stream.set_nodelay(true)?;
    let granted = format!(
        "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{LEASE}",
        LEASE.len()
    );
    let mut request = [0; REQUEST_MAX];
    loop {
        let length = stream.read(&mut request)?;
        if length == 0 {
            return Ok(());
        }
        let is_release = request[..length].starts_with(b"POST /v1/leases/release ");
        stream.write_all(if is_release { RELEASED } else { &granted }.as_bytes())?;
    }
}
