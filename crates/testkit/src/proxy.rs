//! A proxy between a client and a server that loses and delays messages, and cuts connections.

mod acceptor;
mod client;
mod connection;
mod counters;
mod lane;
mod loss;
mod pushes;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use acceptor::{Acceptor, Change, Control};
use connection::Order;
use counters::Counters;
pub use loss::Loss;

use crate::wait::DEADLINE;

/// A TCP proxy in front of one server. Dropping it closes all its connections.
///
/// The proxy has its own thread and runtime. So it works the same for blocking tests, for current-thread runtimes, and
/// for runtimes with paused time. When a method that changes the proxy returns, the change applies to all connections,
/// also to a connection that the client opened just before.
///
/// "Up" is from client to server, "down" from server to client. A counter can lag behind the bytes that it counts, so
/// tests should wait for the expected value.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    controls: Option<UnboundedSender<Control>>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of `server`, which need not be up.
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the system has a free port of 127.0.0.1");
        let addr = listener.local_addr().expect("a listener has an address");
        let counters = Arc::new(Counters::default());
        let (controls, receiver) = unbounded_channel();
        let acceptor = Acceptor::new(server, Arc::clone(&counters));
        let thread = thread::Builder::new()
            .name("testkit-proxy".into())
            .spawn(move || acceptor.run(listener, receiver))
            .expect("the system can start one more thread");
        Self { addr, controls: Some(controls), counters, thread: Some(thread) }
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// While on, the proxy discards all bytes from the server.
    pub fn drop_replies(&self, on: bool) {
        self.change(Change::DropReplies(on));
    }

    /// While on, the proxy discards all bytes from clients.
    pub fn drop_requests(&self, on: bool) {
        self.change(Change::DropRequests(on));
    }

    /// While on, the proxy discards published messages (RESP3 pushes) from the server, and counts them as dropped. All
    /// other bytes pass.
    pub fn drop_pushes(&self, on: bool) {
        self.change(Change::DropPushes(on));
    }

    /// Loses some of the messages that arrive from now on. `None` ends the losses.
    pub fn lose(&self, loss: Option<Loss>) {
        self.change(Change::Lose(loss));
    }

    /// While on, bytes wait in the proxy, in both directions, and so do the ends of streams. Switching it off delivers
    /// them in order.
    pub fn hold(&self, on: bool) {
        self.change(Change::Hold(on));
    }

    /// Delays bytes that arrive from now on by this time, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.change(Change::Delay(delay));
    }

    /// Resets all connections: both sides get a reset, and the bytes that wait in the proxy are lost. Requests that wait
    /// for [`deliver_stranded`](Self::deliver_stranded) are not lost.
    pub fn cut(&self) {
        self.change(Change::Order(Order::Cut));
    }

    /// Closes the direction to the client on all connections: clients see the end of the stream, and bytes that wait for
    /// them are lost. Bytes from clients still reach the server.
    pub fn half_close(&self) {
        self.change(Change::Order(Order::HalfClose));
    }

    /// Forwards the next `count` requests, then resets the connection of the last one. The server gets the last request
    /// completely. Its client gets a reset, and no byte of the reply. Bytes that the proxy reads at once count as one
    /// request.
    pub fn cut_after_requests(&self, count: u64) {
        assert!(count > 0, "to cut at once, call cut()");
        self.change(Change::CutAfterRequests(count));
    }

    /// While on, new connections are closed at once.
    pub fn refuse(&self, on: bool) {
        self.change(Change::Refuse(on));
    }

    /// Sends new connections to another server.
    pub fn retarget(&self, server: SocketAddr) {
        self.change(Change::Retarget(server));
    }

    /// Closes the client side of all connections. Clients see the end of the stream. Requests that wait in the proxy,
    /// because [`hold`](Self::hold) is on, are now *stranded*: the proxy keeps them for
    /// [`deliver_stranded`](Self::deliver_stranded). When `hold` is off, new connections pass normally.
    pub fn strand(&self) {
        self.change(Change::Order(Order::Strand));
    }

    /// Like [`strand`](Self::strand), but a connection without a waiting request stays open until its client sends one,
    /// which is then stranded.
    pub fn strand_next_requests(&self) {
        self.change(Change::Order(Order::StrandNext));
    }

    /// Writes the stranded requests to the server, on the connections on which they came, and discards the replies.
    /// Returns when the bytes are written. The server executes the requests soon after.
    pub fn deliver_stranded(&self) {
        self.change(Change::Order(Order::Deliver));
    }

    /// Connections accepted so far, without the refused ones.
    pub fn connections(&self) -> u64 {
        self.counters.connections.get()
    }

    /// Connections whose client side is open now.
    pub fn open_connections(&self) -> u64 {
        self.counters.open_connections.get()
    }

    /// Connections refused so far.
    pub fn refused(&self) -> u64 {
        self.counters.refused_connections.get()
    }

    /// Bytes written to the server so far.
    pub fn bytes_up(&self) -> u64 {
        self.counters.bytes_up.get()
    }

    /// Bytes written to clients so far.
    pub fn bytes_down(&self) -> u64 {
        self.counters.bytes_down.get()
    }

    /// Bytes from clients discarded so far.
    pub fn dropped_up(&self) -> u64 {
        self.counters.dropped_up.get()
    }

    /// Bytes from the server discarded so far.
    pub fn dropped_down(&self) -> u64 {
        self.counters.dropped_down.get()
    }

    /// Bytes from clients that wait in the proxy now: held, delayed or stranded.
    pub fn held_up(&self) -> u64 {
        self.counters.held_up.get()
    }

    /// Applies a change, and returns when all affected connections have applied it. Each of these connections then drops
    /// its clone of `done`, so that the channel closes.
    #[track_caller]
    fn change(&self, change: Change) {
        let (done, all_done) = mpsc::channel();
        self.controls
            .as_ref()
            .expect("the proxy runs until it is dropped")
            .send(Control { change, done })
            .expect("the proxy's thread runs until the proxy is dropped");
        match all_done.recv_timeout(DEADLINE) {
            Err(RecvTimeoutError::Disconnected) => {}
            Ok(()) | Err(RecvTimeoutError::Timeout) => {
                panic!("the proxy did not apply a change")
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.controls = None;
        if let Some(thread) = self.thread.take() {
            // No panic here: it would abort a test process that is unwinding.
            let _ = thread.join();
        }
    }
}
