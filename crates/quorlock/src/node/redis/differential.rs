//! Compares the scripts with the core: the same requests at the same times must get the same answers and leave the same
//! state.

mod model;
mod seen;
mod steps;

use ::redis::{Client, Connection, Script, Value, pipe};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::name::Channel;
use quorlock_core::node::roster::{Change, ClusterId, Life, Membership, Roster, RosterCommand, Settings};
use quorlock_core::node::{Answer, FenceNote, Identity, NodeCommand};
use quorlock_core::quorum::MemberId;
use quorlock_core::request::{Ticket, Waiter};
use quorlock_core::vote::Handoff;
use quorlock_testkit::{Clock, RedisServer};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;

use super::RedisNode;
use super::codec::Bundles;
use super::scripts::{ServerKind, companion, companion_key, retired_key, tombstone_key};
use crate::node::{Message, Reply, RequestReply};
use model::{Model, State, attempts, channels, constants, owners};
use seen::StoredValues;
use steps::{CONSTANTS, RoleSet, Step, histories};

const CASES: u32 = 300;

#[test]
fn the_scripts_give_the_same_answers_and_store_the_same_state_as_the_core() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    let bench = std::cell::RefCell::new(runtime.block_on(Bench::open(&server, clock)));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&histories(), |(roles, steps)| bench.borrow_mut().run(&runtime, roles, steps))
        .unwrap_or_else(|failure| panic!("{failure}"));
    let bundles = bench.borrow().bundles;
    assert!(
        bundles.into_iter().all(|bundles| bundles > CASES / 4),
        "too few bundles of releases, acquires and renewals: {bundles:?}"
    );
}

/// The node has an id, but is no member of its roster. In the next roster it is a member, and since an earlier generation
/// than that of its roster.
#[test]
fn a_node_that_missed_the_generation_in_which_it_joined_is_quarantined() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    let mut bench = runtime.block_on(Bench::open(&server, clock));
    let mut model = Model::new(steps::ROLE_SETS[0]);
    let seat = |id: u128| (MemberId(id), format!("host{id}:6379/0").into());
    let settings = Settings {
        max_ttl_millis: 3_000,
        max_skew_micros: 1_000_000,
        key_template: "{name}".into(),
        trusts_restarts: false,
    };
    let without = Roster::of_every_seat(ClusterId(1), 1, vec![seat(2)], settings.clone(), None).unwrap();
    let with = Roster::of_every_seat(ClusterId(1), 1, vec![seat(1)], settings, None).unwrap();
    let with = with.successor(&Change::default()).unwrap();
    let (identity, member, life) = (Identity::of_run("first"), MemberId(1), Life(1));
    runtime.block_on(async {
        bench.clock.freeze_at_micros(model.micros);
        bench.wipe();
        for command in [
            RosterCommand::Identify { identity, member, life, floor_offset: 0 },
            RosterCommand::Install(without.into()),
            RosterCommand::Install(with.into()),
        ] {
            bench.send_roster_command(&mut model, &command).await.unwrap();
        }
    });
    let quarantine = model.state.membership.unwrap().quarantine;
    assert_eq!(quarantine.map(|quarantine| quarantine.since), Some(1));
}

/// A server with a frozen clock, and sessions with the server: one for each set of constants, and one for the hints on
/// each channel.
struct Bench {
    /// The node with the first set of constants.
    node: RedisNode,
    clock: Clock,
    sessions: Vec<RequestReply>,
    listeners: Vec<Listener>,
    /// A connection without a deadline, so that a busy machine does not look like a difference.
    raw: Connection,
    /// The numbers of bundles that were sent: of releases, of acquires, and of renewals.
    bundles: [u32; 3],
    /// The last copy of the epoch and the membership.
    copy: [Option<String>; 2],
}

struct Listener {
    channel: Channel,
    session: RequestReply,
    hints: UnboundedReceiver<(Ticket, Option<Handoff>)>,
}

impl Bench {
    async fn open(server: &RedisServer, clock: Clock) -> Self {
        let node = |set| RedisNode::at(&server.url(), constants(set));
        let mut sessions = Vec::new();
        for set in 0..CONSTANTS {
            sessions.push(RequestReply::open(&node(set), Channel(0)).await.unwrap());
        }
        let mut listeners = Vec::new();
        for channel in channels() {
            let (session, hints) = RequestReply::listening(&node(0), channel).await.unwrap();
            listeners.push(Listener { channel, session, hints });
        }
        let raw = Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { node: node(0), clock, sessions, listeners, raw, bundles: [0; 3], copy: [None, None] }
    }

    fn run(&mut self, runtime: &Runtime, roles: RoleSet, steps: Vec<Step>) -> TestCaseResult {
        let mut model = Model::new(roles);
        runtime.block_on(async {
            self.clock.freeze_at_micros(model.micros);
            self.wipe();
            // Discard the hints of a history that failed.
            self.hints().await;
            for step in steps {
                self.step(&mut model, &step).await?;
                let (stored, expected) = (self.state(&model).await?, model.visible());
                prop_assert_eq!(stored, expected, "after {:?}", step);
            }
            Ok(())
        })
    }

    async fn step(&mut self, model: &mut Model, step: &Step) -> TestCaseResult {
        match step {
            Step::Pass(jump) => {
                let before = model.micros;
                model.pass(jump);
                if model.micros < before {
                    self.remove_expired(model, before);
                }
                self.clock.freeze_at_micros(model.micros);
            }
            Step::Send { life, batch } => {
                let life = model.life(*life);
                let names: Vec<usize> = batch.iter().map(|intent| intent.name).collect();
                let messages: Vec<Message> = batch
                    .iter()
                    .map(|intent| Message {
                        key: model.keys[intent.name].clone(),
                        request: model.request(intent).into(),
                    })
                    .collect();
                let bundles = Bundles::of(&messages);
                let counts = bundles.counts().map(|messages| u32::from(messages > 0));
                self.bundles = std::array::from_fn(|kind| self.bundles[kind] + counts[kind]);
                let replies = self.sessions[model.constants_set()].send(life, messages.clone()).await.unwrap();
                prop_assert_eq!(replies.len(), messages.len());
                let mut hints = Vec::new();
                for (at, ((reply, message), name)) in replies.into_iter().zip(messages).zip(names).enumerate() {
                    let Answer { vote, hint, handoff } = model.answer(life, name, &message.request);
                    let turn = bundles.turn(at);
                    hints.extend(hint.map(|Waiter { channel, ticket, .. }| (turn, (channel, ticket, handoff))));
                    // The replies to plain requests and to releases do not contain the time.
                    let is_silent = message.request.is_plain() || message.request.is_release();
                    let at_micros = (!is_silent).then_some(model.micros.unsigned_abs());
                    prop_assert_eq!(reply, Reply::Voted { vote, at_micros }, "to {:?} in {:?}", message, step);
                }
                // The hints of each channel arrive in the order in which the requests are sent. Bundles are sent first.
                hints.sort_by_key(|(turn, (channel, ..))| (*channel, *turn));
                let hints: Vec<_> = hints.into_iter().map(|(_, hint)| hint).collect();
                prop_assert_eq!(self.hints().await, hints, "hints after {:?}", step);
            }
            Step::Command(command) => {
                let node_command = model.node_command(command);
                let standing = self.sessions[0].node_command(node_command.clone()).await.unwrap();
                prop_assert_eq!(standing, model.attend(&node_command), "to {:?}", node_command);
            }
            Step::Found { others, trusts_restarts } => {
                for command in model.founding(*others, *trusts_restarts) {
                    self.send_roster_command(model, &command).await?;
                }
                prop_assert!(model.state.membership.as_ref().is_some_and(Membership::is_voting));
            }
            Step::Roster(step) => {
                let command = model.roster_command(step);
                self.send_roster_command(model, &command).await?;
            }
            Step::Copy => {
                let keys = [ServerKind::Server.epoch_key(), ServerKind::Server.membership_key()];
                self.copy = ::redis::cmd("MGET").arg(&keys).query(&mut self.raw).unwrap();
                model.copy();
            }
            Step::Restore { identity } => {
                if let [Some(epoch_text), Some(text)] = self.copy.clone()
                    && let Some(command) = model.restore(*identity)
                {
                    self.command(&["SET", ServerKind::Server.epoch_key(), &epoch_text]);
                    self.command(&["SET", ServerKind::Server.membership_key(), &text]);
                    self.send_roster_command(model, &RosterCommand::Read).await?;
                    self.send_roster_command(model, &command).await?;
                }
            }
            Step::WipeEpoch => {
                self.command(&["DEL", ServerKind::Server.epoch_key()]);
                model.wipe_epoch();
            }
            Step::WipeAll => {
                self.wipe();
                model.wipe_all();
            }
            Step::NearTheLastFence { name, below } => {
                let key = companion_key(companion::FENCE, &model.keys[*name]);
                let FenceNote { fence, by, since_micros, holder, .. } = model.plant(*name, *below);
                let value = format!("{fence} {} {since_micros} - {holder}", by.reveal());
                self.command(&["SET", &key, &value, "PX", "60000"]);
            }
            Step::Vanish { name } => {
                self.command(&["DEL", &model.keys[*name].text]);
                model.vanish(*name);
            }
        }
        Ok(())
    }

    async fn send_roster_command(&mut self, model: &mut Model, command: &RosterCommand) -> TestCaseResult {
        let answered = self.sessions[0].roster_command(command.clone()).await;
        if answered.is_err() {
            // Reconnect, so that proptest can look for a shorter failing case.
            self.sessions[0] = RequestReply::open(&self.node, Channel(0)).await.unwrap();
        }
        let answer = answered.map(|(answer, _)| answer);
        prop_assert_eq!(answer, Ok(model.execute(command)), "to {:?}", command);
        Ok(())
    }

    fn wipe(&mut self) {
        self.command(&["FLUSHALL"]);
    }

    fn command(&mut self, words: &[&str]) {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]).exec(&mut self.raw).unwrap();
    }

    /// Returns the hints since the last call, by channel. A hint arrives before the answer to a later question.
    async fn hints(&mut self) -> Vec<(Channel, Ticket, Option<Handoff>)> {
        let mut all = Vec::new();
        for Listener { channel, session, hints } in &mut self.listeners {
            session.node_command(NodeCommand::Look).await.unwrap();
            let new = std::iter::from_fn(|| hints.try_recv().ok());
            all.extend(new.map(|(ticket, handoff)| (*channel, ticket, handoff)));
        }
        all
    }

    /// Deletes the records that expired at this time, before the clock goes back: the core has already deleted them.
    fn remove_expired(&mut self, model: &Model, micros: i64) {
        let forget = Script::new(include_str!("differential/forget.lua"));
        for key in &model.keys {
            let mut run = forget.prepare_invoke();
            run.key(companion_key(companion::HOLDS, key))
                .key(companion_key(companion::QUEUE, key))
                .key(companion_key(companion::KEPT, key))
                .key(companion_key(companion::ASKED, key));
            run.arg(micros.div_euclid(1_000));
            run.invoke::<()>(&mut self.raw).unwrap();
        }
    }

    /// Returns the state of the server, and checks that it has no other keys. Reads only the life with a script.
    async fn state(&mut self, model: &Model) -> Result<State, TestCaseError> {
        let mut pipe = pipe();
        for (name, key) in model.keys.iter().enumerate() {
            for key in [key.text.clone(), companion_key(companion::FENCE, key)] {
                pipe.cmd("GET").arg(&key).cmd("PTTL").arg(&key);
            }
            pipe.cmd("HGETALL")
                .arg(companion_key(companion::HOLDS, key))
                .cmd("PTTL")
                .arg(companion_key(companion::HOLDS, key));
            for key in [companion_key(companion::QUEUE, key), companion_key(companion::KEPT, key)] {
                pipe.cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").cmd("PTTL").arg(&key);
            }
            pipe.cmd("HGETALL")
                .arg(companion_key(companion::ASKED, key))
                .cmd("PTTL")
                .arg(companion_key(companion::ASKED, key));
            for attempt in attempts(name) {
                pipe.cmd("PTTL").arg(tombstone_key(key, attempt));
            }
            for owner in owners() {
                pipe.cmd("PTTL").arg(retired_key(key, owner));
            }
        }
        for key in [ServerKind::Server.epoch_key(), ServerKind::Server.membership_key()] {
            pipe.cmd("EXISTS").arg(key);
        }
        pipe.cmd("DBSIZE");
        let values: Vec<Value> = pipe.query(&mut self.raw).unwrap();
        let life = self.sessions[0].node_command(NodeCommand::Look).await.unwrap().life;
        let (answer, _) = self.sessions[0].roster_command(RosterCommand::Read).await.unwrap();
        StoredValues::new(values, model.micros.div_euclid(1_000)).state(life, answer.membership)
    }
}
