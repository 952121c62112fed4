//! A whole Redis Cluster as one node: a connection to every master, and a name's keys all with one of them.
//!
//! Whatever is not as it was in the handshake ends the session, with all its connections. The life of such a node is that of
//! all its masters: if any of them is another one, it is a new life.

mod reorder;
mod shards;
pub(crate) mod slot;

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{ConnectionInfo, Pipeline, RedisConnectionInfo};
use futures_util::future::try_join_all;
use quorlock_core::node::{Constants, Identity, NodeCommand};

use super::codec::Writer;
use super::commands::Commands;
use super::fitness::{self, Post, identify};
use super::scripts::Home;
use super::seeds::{self, Seeds};
use super::wire::{Connecting, Wire};
use super::{codec, connect, greet, hints, history, malformed};
use crate::node::redis::cluster::slot::Slot;
use crate::node::{BoxFuture, Inbox, Node, Question, Search, Session, Trouble};
use reorder::{Ear, Reorder};
use shards::Shards;

const PORT: u16 = 6_379;

/// A Cluster that can be connected to.
pub(crate) struct ClusterNode {
    title: String,
    setup: Arc<Setup>,
}

struct Setup {
    title: String,
    seeds: Vec<ConnectionInfo>,
    login: RedisConnectionInfo,
    tls: bool,
    constants: Constants,
    connect_deadline: Duration,
}

impl ClusterNode {
    /// Reads `redis+cluster://[user:password@]host[:port],..[?tls=true]`: some of the Cluster's servers, from which the
    /// others are learned. The login is for a URL without a password.
    pub(crate) fn new(
        url: &str,
        login: Option<&(String, String)>,
        constants: Constants,
        connect_deadline: Duration,
    ) -> Result<Self, String> {
        let mut seeds = Seeds::parse(url, PORT)?;
        if !seeds.path.is_empty() {
            return Err("a Cluster has no databases: nothing can follow its hosts but ?tls=true".into());
        }
        let tls = seeds.tls()?;
        seeds.end("tls")?;
        let login = seeds::with_login(&seeds.login, login);
        let title = format!("redis+cluster://{}", seeds.title());
        let seeds = seeds.infos(tls, &login)?;
        let setup = Setup { title: title.clone(), seeds, login, tls, constants, connect_deadline };
        Ok(Self { title, setup: Arc::new(setup) })
    }
}

impl Node for ClusterNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        let setup = Arc::clone(&self.setup);
        Box::pin(async move { Ok(Box::new(setup.open(inbox).await?) as Box<dyn Session>) })
    }
}

impl Setup {
    async fn open(&self, inbox: Inbox) -> Result<ClusterSession, Trouble> {
        let shards = seeds::ask_all(&self.seeds, self.connect_deadline, Shards::ask).await?;
        let masters = shards.masters.iter().enumerate();
        let masters = try_join_all(masters.map(|(lane, (host, port))| self.meet(lane, host, *port, &inbox))).await?;
        let run = join(masters.iter().map(|(_, master)| master.run.as_str()));
        let promotion = join(masters.iter().map(|(_, master)| master.promotion.as_str()));
        let identity = Identity { run, promotion };
        let desk = Arc::new(Reorder::new(inbox, masters.len(), identity.run.clone()));
        let lanes = masters.into_iter().enumerate();
        let lanes = lanes.map(|(lane, (connecting, _))| connecting.start(Ear::new(lane, &desk))).collect();
        Ok(ClusterSession { lanes, shards, desk, constants: self.constants.clone(), identity })
    }

    /// Connects to a master. One of them is enough to hear hints: what is published on any is heard on all.
    async fn meet(&self, lane: usize, host: &str, port: u16, inbox: &Inbox) -> Result<(Connecting, Identity), Trouble> {
        let named = |trouble: Trouble| trouble.of(&format!("{host}:{port}"));
        let info = seeds::info(host.to_owned(), port, self.tls, &self.login)?;
        let mut connecting = connect(&info, self.connect_deadline).await.map_err(named)?;
        let mut wanted = hints::wanted(inbox);
        wanted.channels.retain(|_| lane == 0);
        let text = greet(&mut connecting, &info, &self.title, Home::Cluster, wanted).await.map_err(named)?;
        Ok((connecting, identify(&text, Post::Cluster).map_err(named)?))
    }
}

struct ClusterSession {
    /// A connection to each master.
    lanes: Vec<Wire>,
    shards: Shards,
    desk: Arc<Reorder>,
    constants: Constants,
    identity: Identity,
}

impl Session for ClusterSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        match &question {
            Question::Votes(life, messages) => {
                let mut mail: Vec<Commands> = self.lanes.iter().map(|_| Commands::default()).collect();
                let writer = Writer::new(*life, &self.constants);
                let mut route = Vec::with_capacity(messages.len());
                for message in messages {
                    let slot = message.key.slot.unwrap_or_else(|| Slot::of(&message.key.text));
                    let lane = self.shards.lane(slot);
                    writer.write(message, &mut mail[lane]);
                    route.push(lane);
                }
                // The answers are expected before the questions leave.
                self.desk.expect(question, &route);
                for (wire, commands) in self.lanes.iter().zip(&mail).filter(|(_, commands)| commands.len() > 0) {
                    wire.send(commands.as_bytes());
                }
            }
            // The node's own keys are on one master. All masters are asked whether they are still masters, and may evict.
            Question::NodeCommand(command) => {
                let home = self.shards.lane(Slot::of(&Home::Cluster.epoch_key()));
                let (values, bytes) = if *command == NodeCommand::Look {
                    (codec::LOOK_VALUES, codec::look(Home::Cluster).get_packed_pipeline())
                } else {
                    (1, codec::node_command(Home::Cluster, command).get_packed_command())
                };
                let lanes = self.lanes.len();
                let route: Vec<usize> = iter::repeat_n(home, values).chain(0..lanes).chain(0..lanes).collect();
                self.desk.expect(question, &route);
                self.lanes[home].send(&bytes);
                for command in [fitness::replication(), fitness::memory()] {
                    self.lanes.iter().for_each(|wire| wire.send(&command.get_packed_command()));
                }
            }
            // One master after the other.
            Question::Search(search) => {
                let (lane, after) = reorder::open_at(&search.after, self.lanes.len());
                let command = codec::search(Home::Cluster, &Search { after, span: search.span.clone() });
                self.desk.expect(question, &[lane]);
                self.lanes[lane].send(&command.get_packed_command());
            }
            Question::Note(events) => self.ask_for_history(&history::note(Home::Cluster, events), question),
            Question::Recall(limit) => self.ask_for_history(&history::recall(Home::Cluster, *limit), question),
        }
    }
}

impl ClusterSession {
    fn ask_for_history(&self, pipe: &Pipeline, question: Question) {
        let home = self.shards.lane(Slot::of(&Home::Cluster.history_key()));
        self.desk.expect(question, &vec![home; pipe.len()]);
        self.lanes[home].send(&pipe.get_packed_pipeline());
    }
}

/// Signs of all masters, as one word in an order of their own.
fn join<'a>(signs: impl Iterator<Item = &'a str>) -> String {
    let mut signs: Vec<&str> = signs.filter(|sign| !sign.is_empty()).collect();
    signs.sort_unstable();
    signs.join("+")
}

#[cfg(test)]
mod tests;
