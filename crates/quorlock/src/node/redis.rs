//! Redis and Valkey servers as nodes: one server, the master that sentinels name, or a whole Redis Cluster. The scripts
//! decide.
//!
//! Hints arrive as RESP3 pushes over the connection itself. Every server that is new enough for the scripts speaks RESP3,
//! so there is no second connection to listen on. A server that does not allow to subscribe is a node without hints.

mod codec;
mod commands;
#[cfg(test)]
mod differential;
mod fitness;
mod hints;
mod history;
#[cfg(test)]
mod hostile;
mod probe;
mod scripts;
mod seeds;
mod sentinel;
mod session;
mod shards;
pub(in crate::node) mod slot;
mod trouble;
mod value;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod watch;
mod wire;

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use quorlock_core::node::{Constants, Identity};
use quorlock_core::ticket::Channel;

use crate::node::probe::{Plan, Probe};
use crate::node::url::{Origin, Server};
use crate::node::{BoxFuture, Inbox, Node, Session, Trouble};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use codec::take_anything;
use commands::Commands;
use fitness::{Post, identify, info_text};
use scripts::{broken_channel, hint_channel};
use session::RedisSession;
use shards::Shards;
use trouble::{checked, malformed};
use value::Value;
use wire::Connecting;

/// Redis servers that can be connected to.
#[derive(Clone)]
pub(crate) struct RedisNode {
    title: String,
    origin: Origin,
    /// For the scripts; the name of the cluster plays no part in them.
    constants: Constants,
    connect_deadline: Duration,
}

impl RedisNode {
    pub(crate) fn new(origin: Origin, constants: Constants, connect_deadline: Duration) -> Self {
        Self { title: origin.to_string(), origin, constants, connect_deadline }
    }

    async fn connect(&self, inbox: Inbox) -> Result<RedisSession, Trouble> {
        let deadline = self.connect_deadline;
        let (shards, watch) = match &self.origin {
            Origin::Server(server) => (Shards::single(server.clone()), None),
            Origin::Sentinels(sentinels) => {
                let (master, sentinel) = sentinels.master(deadline).await?;
                let watch = sentinels.watch(master.address.clone(), sentinel, inbox.clone());
                (Shards::single(master), Some(watch))
            }
            Origin::Cluster(servers) => (seeds::ask_all(servers, deadline, Shards::ask).await?, None),
        };
        let masters = shards.masters.iter().enumerate();
        let masters = try_join_all(masters.map(|(lane, server)| self.meet(lane, server, inbox.channel))).await?;
        Ok(RedisSession::start(masters, shards, Post::of(&self.origin), inbox, self.constants.clone(), watch))
    }

    /// Connects to a server, and reads who it is.
    async fn meet(&self, lane: usize, server: &Server, channel: Channel) -> Result<(Connecting, Identity), Trouble> {
        let post = Post::of(&self.origin);
        let met = async {
            let mut connecting = Connecting::open(server, self.connect_deadline).await?;
            let text = self.greet(&mut connecting, lane, server, channel).await?;
            Ok((connecting, identify(&text, post)?))
        };
        let named =
            |trouble: Trouble| if post == Post::Cluster { trouble.of(&server.address.to_string()) } else { trouble };
        met.await.map_err(named)
    }

    /// Logs in, reads what the server says of itself, loads the scripts, and listens for hints and for changes of the
    /// server's memory: one round trip. Channel 0 is nobody's.
    async fn greet(
        &self,
        connecting: &mut Connecting,
        lane: usize,
        server: &Server,
        channel: Channel,
    ) -> Result<String, Trouble> {
        let home = Post::of(&self.origin).home();
        let mut commands = Commands::default();
        login(server, &mut commands);
        let info = commands.len();
        commands.command("INFO");
        for script in home.scripts() {
            commands.command("SCRIPT").word("LOAD").word(&script.source);
        }
        let listening = commands.len();
        let listens = channel != Channel(0);
        // A message that is published on one server of a Cluster arrives on all. Each channel is confirmed by one push.
        if listens && lane == 0 {
            commands.command("SUBSCRIBE").word(hint_channel(channel));
            commands.command("SUBSCRIBE").word(broken_channel());
        }
        // The last command, because pushes may follow its reply. Changes before it show in the first look.
        if listens {
            hints::track(home, &mut commands);
        }
        let mut values = connecting.ask(&mut commands).await?;
        let mut listening = values.split_off(listening);
        if let Some(tracking) = listening.pop() {
            hints::note_tracking(&self.title, &tracking);
        }
        for answer in &listening {
            hints::note(&self.title, answer);
        }
        let mut values: Vec<Value> = values.into_iter().map(checked).collect::<Result<_, _>>()?;
        info_text(values.swap_remove(info))
    }
}

impl Node for RedisNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        let node = self.clone();
        Box::pin(async move { Ok(Box::new(node.connect(inbox).await?) as Box<dyn Session>) })
    }

    fn examine<'a>(&'a self, plan: &'a Plan) -> Pin<Box<dyn Future<Output = Probe> + Send + 'a>> {
        match &self.origin {
            Origin::Cluster(_) => Box::pin(crate::node::probe::by_session(self, plan)),
            origin => Box::pin(probe::examine(origin, self.connect_deadline, plan)),
        }
    }
}

/// Says which protocol we speak, and who we are.
fn hello(server: &Server, commands: &mut Commands) {
    commands.command("HELLO").word("3");
    if let Some((user, password)) = &server.login {
        commands.word("AUTH").word(user).word(password);
    }
}

/// Begins a connection to a node.
fn login(server: &Server, commands: &mut Commands) {
    hello(server, commands);
    if server.db != 0 {
        commands.command("SELECT").number(server.db.into());
    }
}

#[cfg(test)]
mod tests;
