//! The proxy's thread: accepts connections, and passes control calls to them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::client::Client;
use super::connection::{self, Modes, Order, Ordered};
use super::counters::Counters;
use super::loss::{Chances, Loss};

pub(super) struct Control {
    pub(super) change: Change,
    pub(super) done: Sender<()>,
}

pub(super) enum Change {
    DropReplies(bool),
    DropRequests(bool),
    DropPushes(bool),
    Lose(Option<Loss>),
    Hold(bool),
    Delay(Duration),
    Refuse(bool),
    Retarget(SocketAddr),
    CutAfterRequests(u64),
    Order(Order),
}

pub(super) struct Acceptor {
    server: SocketAddr,
    refuse: bool,
    modes: watch::Sender<Modes>,
    connections: Vec<UnboundedSender<Ordered>>,
    counters: Arc<Counters>,
}

impl Acceptor {
    pub(super) fn new(server: SocketAddr, counters: Arc<Counters>) -> Self {
        Self { server, refuse: false, modes: watch::Sender::default(), connections: Vec::new(), counters }
    }

    /// Returns when the proxy is dropped. The runtime then drops, and closes,
    /// all connections.
    pub(super) fn run(self, listener: TcpListener, controls: UnboundedReceiver<Control>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("the system can start one more runtime")
            .block_on(self.serve(listener, controls));
    }

    async fn serve(mut self, listener: TcpListener, mut controls: UnboundedReceiver<Control>) {
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let copy = listener.try_clone().expect("a listener can be copied");
        let incoming = tokio::net::TcpListener::from_std(copy).expect("the runtime can watch a listener");
        loop {
            tokio::select! {
                accepted = incoming.accept() => {
                    // A client may go away before it is accepted.
                    if let Ok((client, _)) = accepted {
                        self.admit(client);
                    }
                }
                control = controls.recv() => {
                    let Some(control) = control else { return };
                    self.admit_waiting(&listener);
                    self.apply(control);
                }
            }
        }
    }

    /// Accepts the clients that connected before a control call, because the call
    /// applies to them. Asks the kernel directly: the runtime may not have been
    /// notified yet.
    fn admit_waiting(&mut self, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            client.set_nonblocking(true).expect("a stream can be made non-blocking");
            self.admit(TcpStream::from_std(client).expect("the runtime can watch a stream"));
        }
    }

    fn admit(&mut self, client: TcpStream) {
        if self.refuse {
            self.counters.refused.add(1);
            drop(client);
            return;
        }
        let (sender, orders) = unbounded_channel();
        self.connections.retain(|orders| !orders.is_closed());
        self.connections.push(sender);
        let client = Client::new(client, Arc::clone(&self.counters));
        let modes = self.modes.subscribe();
        let chances = Chances::new(self.counters.connections.get());
        tokio::spawn(connection::run(client, self.server, modes, orders, chances));
    }

    fn apply(&mut self, Control { change, done }: Control) {
        let modes = &self.modes;
        match change {
            Change::DropReplies(on) => modes.send_modify(|modes| modes.drop_replies = on),
            Change::DropRequests(on) => modes.send_modify(|modes| modes.drop_requests = on),
            Change::DropPushes(on) => modes.send_modify(|modes| modes.drop_pushes = on),
            Change::Lose(loss) => modes.send_modify(|modes| modes.loss = loss),
            Change::Hold(on) => modes.send_modify(|modes| modes.hold = on),
            Change::Delay(delay) => modes.send_modify(|modes| modes.delay = delay),
            Change::Refuse(on) => self.refuse = on,
            Change::Retarget(server) => self.server = server,
            Change::CutAfterRequests(n) => self.counters.reads_to_cut.set(n),
            Change::Order(order) => {
                for connection in &self.connections {
                    let done = done.clone();
                    // A connection that has ended has nothing left to do.
                    let _ = connection.send(Ordered { order, done });
                }
            }
        }
    }
}
