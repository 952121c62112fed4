//! The thread of a proxy: accepts connections, and passes changes to them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::client::Client;
use super::connection::{self, Modes, Order, OrderWithSender};
use super::counters::Counters;
use super::loss::{Loss, LossRng};

/// A change of the proxy, with the sender to drop when the change has been applied.
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
    is_refusing: bool,
    modes: watch::Sender<Modes>,
    connections: Vec<UnboundedSender<OrderWithSender>>,
    counters: Arc<Counters>,
}

impl Acceptor {
    pub(super) fn new(server: SocketAddr, counters: Arc<Counters>) -> Self {
        Self { server, is_refusing: false, modes: watch::Sender::default(), connections: Vec::new(), counters }
    }

    /// Serves until the proxy is dropped. The runtime then drops all connections, which closes them.
    pub(super) fn run(self, listener: TcpListener, controls: UnboundedReceiver<Control>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("the system can start one more runtime")
            .block_on(self.serve(listener, controls));
    }

    async fn serve(mut self, listener: TcpListener, mut controls: UnboundedReceiver<Control>) {
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let listener_copy = listener.try_clone().expect("a listener can be copied");
        let incoming = tokio::net::TcpListener::from_std(listener_copy).expect("the runtime can watch a listener");
        loop {
            tokio::select! {
                accepted = incoming.accept() => {
                    // Fails if the client closed its connection before it was accepted.
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

    /// Accepts the clients that connected before a change, because the change applies to them. Asks the kernel directly,
    /// because the runtime may not know about them yet.
    fn admit_waiting(&mut self, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            client.set_nonblocking(true).expect("a stream can be made non-blocking");
            self.admit(TcpStream::from_std(client).expect("the runtime can watch a stream"));
        }
    }

    fn admit(&mut self, client: TcpStream) {
        if self.is_refusing {
            self.counters.refused_connections.add(1);
            drop(client);
            return;
        }
        let (sender, orders) = unbounded_channel();
        self.connections.retain(|orders| !orders.is_closed());
        self.connections.push(sender);
        let client = Client::new(client, Arc::clone(&self.counters));
        let modes = self.modes.subscribe();
        let loss_rng = LossRng::new(self.counters.connections.get());
        tokio::spawn(connection::run(client, self.server, modes, orders, loss_rng));
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
            Change::Refuse(on) => self.is_refusing = on,
            Change::Retarget(server) => self.server = server,
            Change::CutAfterRequests(count) => self.counters.requests_to_cut.set(count),
            Change::Order(order) => {
                for connection in &self.connections {
                    let done = done.clone();
                    // Fails if the connection has ended. The change does not apply to it.
                    let _ = connection.send(OrderWithSender { order, done });
                }
            }
        }
    }
}
