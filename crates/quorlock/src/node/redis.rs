//! Redis and Valkey servers as nodes: one server, the master that sentinels name, or a Redis Cluster. Lua scripts
//! implement the core's rules.
//!
//! Hints arrive as RESP3 pushes on the same connection. Every server that is new enough for the scripts supports RESP3,
//! so no second connection is needed. A server that does not permit subscriptions still works as a node, without hints.

mod codec;
#[cfg(test)]
mod differential;
mod fitness;
mod hints;
mod history;
#[cfg(test)]
mod hostile;
mod probe;
mod resp;
mod scripts;
mod seeds;
mod sentinel;
mod session;
mod shards;
pub(in crate::node) mod slot;
mod trouble;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, try_join_all};
use quorlock_core::name::Channel;
use quorlock_core::node::{Constants, Identity};
use tokio::task::JoinSet;

use crate::node::probe::{Plan, Probe};
use crate::node::url::{Origin, Server};
use crate::node::{Inbox, Node, Session, Trouble};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use codec::take_anything;
use fitness::{identify, info_text};
use resp::{Commands, Value};
use scripts::{BROKEN_CHANNEL, ServerKind, hint_channel};
use session::RedisSession;
use shards::Shards;
use trouble::{checked, malformed};
use wire::Connecting;

/// A node on one or more Redis servers.
#[derive(Clone)]
pub(crate) struct RedisNode {
    title: String,
    origin: Arc<Origin>,
    /// Arguments for the scripts. The scripts do not use the name of the cluster.
    constants: Constants,
    connect_deadline: Duration,
}

impl RedisNode {
    pub(crate) fn new(origin: Origin, constants: Constants, connect_deadline: Duration) -> Self {
        Self { title: origin.to_string(), origin: Arc::new(origin), constants, connect_deadline }
    }

    async fn connect(&self, inbox: Inbox) -> Result<RedisSession, Trouble> {
        let deadline = self.connect_deadline;
        let (shards, tasks) = match &*self.origin {
            Origin::Server(server) => (Shards::single(server.clone()), JoinSet::new()),
            Origin::Sentinels(sentinels) => {
                let (master, sentinel) = sentinels.master(deadline).await?;
                let watch = sentinels.watch(master.address.clone(), sentinel, inbox.clone());
                (Shards::single(master), watch)
            }
            Origin::Cluster(servers) => (seeds::ask_all(servers, deadline, Shards::ask).await?, JoinSet::new()),
        };
        let masters = shards.masters.iter().enumerate();
        let masters = try_join_all(masters.map(|(lane, server)| self.reach(lane, server, inbox.channel))).await?;
        Ok(RedisSession::start(masters, shards, Arc::clone(&self.origin), inbox, self.constants.clone(), tasks))
    }

    /// Connects to a server and reads its identity. `lane` is the position of the server among the node's masters.
    async fn reach(&self, lane: usize, server: &Server, channel: Channel) -> Result<(Connecting, Identity), Trouble> {
        let in_cluster = self.origin.server_kind() == ServerKind::Cluster;
        let connected = async {
            let mut connecting = Connecting::open(server, self.connect_deadline).await?;
            let text = self.handshake(&mut connecting, lane, server, channel).await?;
            Ok((connecting, identify(&text, &self.origin)?))
        };
        let with_address =
            |trouble: Trouble| if in_cluster { trouble.with_server(&server.address.to_string()) } else { trouble };
        connected.await.map_err(with_address)
    }

    /// Logs in, reads the server's `INFO`, loads the scripts, and subscribes to hints and memory changes, in one round
    /// trip. Channel 0 belongs to no client and receives no hints.
    async fn handshake(
        &self,
        connecting: &mut Connecting,
        lane: usize,
        server: &Server,
        channel: Channel,
    ) -> Result<String, Trouble> {
        let server_kind = self.origin.server_kind();
        let mut commands = Commands::default();
        write_login(server, &mut commands);
        let info_index = commands.len();
        commands.command("INFO");
        for script in server_kind.scripts() {
            commands.command("SCRIPT").word("LOAD").word(&script.source);
        }
        let first_subscription = commands.len();
        let subscribes = channel != Channel(0);
        // In a Redis Cluster, a message that is published on one server reaches all servers, so one of them is enough.
        // Each channel has its own command, so that each command has one reply: the push that confirms the channel.
        if subscribes && lane == 0 {
            commands.command("SUBSCRIBE").word(hint_channel(channel));
            commands.command("SUBSCRIBE").word(BROKEN_CHANNEL);
        }
        // Send the tracking command last, because pushes may follow its reply. The first look at the node's state
        // detects changes that were made before.
        if subscribes {
            hints::write_tracking(server_kind, &mut commands);
        }
        let mut values = connecting.ask(&mut commands).await?;
        let mut subscribed = values.split_off(first_subscription);
        if let Some(tracking) = subscribed.pop() {
            hints::log_refused_tracking(&self.title, &tracking);
        }
        for answer in &subscribed {
            hints::log_refused_subscription(&self.title, answer);
        }
        let mut values: Vec<Value> = values.into_iter().map(checked).collect::<Result<_, _>>()?;
        info_text(values.swap_remove(info_index))
    }
}

impl Node for RedisNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>> {
        let node = self.clone();
        Box::pin(async move { Ok(Box::new(node.connect(inbox).await?) as Box<dyn Session>) })
    }

    fn examine<'a>(&'a self, plan: &'a Plan) -> BoxFuture<'a, Probe> {
        match &*self.origin {
            Origin::Cluster(_) => Box::pin(crate::node::probe::by_session(self, plan)),
            origin => Box::pin(probe::examine(origin, self.connect_deadline, plan)),
        }
    }
}

/// Writes the command that selects RESP3 and authenticates.
fn write_hello(server: &Server, commands: &mut Commands) {
    commands.command("HELLO").word("3");
    if let Some((user, password)) = &server.login {
        commands.word("AUTH").word(user).word(password);
    }
}

/// Writes the commands that select RESP3, authenticate, and select the database.
fn write_login(server: &Server, commands: &mut Commands) {
    write_hello(server, commands);
    if server.db != 0 {
        commands.command("SELECT").number(server.db.into());
    }
}

#[cfg(test)]
mod tests;
