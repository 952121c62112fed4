//! The scripts against the core: the same requests at the same times, the same answers, the same state.

mod model;
mod seen;
mod steps;

use ::redis::{Client, Connection, Script, Value, pipe};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::name::Channel;
use quorlock_core::node::{Answer, FenceNote, NodeCommand};
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
use seen::Seen;
use steps::{CONSTANTS, Cast, Step, Visit, stories};

const CASES: u32 = 300;

#[test]
fn the_scripts_do_what_the_core_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    let bench = std::cell::RefCell::new(runtime.block_on(Bench::open(&server, clock)));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&stories(), |(cast, first, steps)| bench.borrow_mut().run(&runtime, cast, first, steps))
        .unwrap_or_else(|failure| panic!("{failure}"));
    let bundles = bench.borrow().bundles;
    assert!(
        bundles.into_iter().all(|bundles| bundles > CASES / 4),
        "of releases, of acquires and of renewals there were {bundles:?}"
    );
}

/// A server whose clock stands still, and sessions with it: one for each set of constants, one to listen on each
/// channel.
struct Bench {
    clock: Clock,
    sessions: Vec<RequestReply>,
    listeners: Vec<Listener>,
    /// Without a deadline: a machine that is busy must not look like a difference.
    raw: Connection,
    /// How many bundles were sent: of releases, of acquires, and of renewals.
    bundles: [u32; 3],
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
        Self { clock, sessions, listeners, raw, bundles: [0; 3] }
    }

    fn run(&mut self, runtime: &Runtime, cast: Cast, first: Visit, steps: Vec<Step>) -> TestCaseResult {
        let mut model = Model::new(cast);
        runtime.block_on(async {
            self.clock.freeze_at_micros(model.micros);
            self.wipe();
            // Of a story that ended early.
            self.hints().await;
            for step in std::iter::once(Step::Visit(first)).chain(steps) {
                self.step(&mut model, &step).await?;
                let (seen, expected) = (self.state(&model).await?, model.visible());
                prop_assert_eq!(seen, expected, "after {:?}", step);
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
                    self.forget_lapsed(model, before);
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
                let replies = self.sessions[model.kin()].send(life, messages.clone()).await.unwrap();
                prop_assert_eq!(replies.len(), messages.len());
                let mut hints = Vec::new();
                for (at, ((reply, message), name)) in replies.into_iter().zip(messages).zip(names).enumerate() {
                    let Answer { vote, hint, handoff } = model.answer(life, name, &message.request);
                    let turn = bundles.turn(at);
                    hints.extend(hint.map(|Waiter { channel, ticket, .. }| (turn, (channel, ticket, handoff))));
                    // The page's own commands and releases do not tell the time.
                    let is_silent = message.request.is_plain() || message.request.is_release();
                    let at_micros = (!is_silent).then_some(model.micros.unsigned_abs());
                    prop_assert_eq!(reply, Reply::Voted { vote, at_micros }, "to {:?} in {:?}", message, step);
                }
                // On each channel in the order in which the messages are sent: bundles overtake what is about other
                // names.
                hints.sort_by_key(|(turn, (channel, ..))| (*channel, *turn));
                let hints: Vec<_> = hints.into_iter().map(|(_, hint)| hint).collect();
                prop_assert_eq!(self.hints().await, hints, "hints after {:?}", step);
            }
            Step::Visit(visit) => {
                let node_command = model.node_command(visit);
                let standing = self.sessions[0].node_command(node_command.clone()).await.unwrap();
                prop_assert_eq!(standing, model.attend(&node_command), "to {:?}", node_command);
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

    fn wipe(&mut self) {
        self.command(&["FLUSHALL"]);
    }

    fn command(&mut self, words: &[&str]) {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]).exec(&mut self.raw).unwrap();
    }

    /// What was published since the last time, channel by channel: it is heard before the answer to a later question.
    async fn hints(&mut self) -> Vec<(Channel, Ticket, Option<Handoff>)> {
        let mut heard = Vec::new();
        for Listener { channel, session, hints } in &mut self.listeners {
            session.node_command(NodeCommand::Look).await.unwrap();
            let said = std::iter::from_fn(|| hints.try_recv().ok());
            heard.extend(said.map(|(ticket, handoff)| (*channel, ticket, handoff)));
        }
        heard
    }

    /// Forgets what had lapsed by then, before the clock goes back: for the core, what has lapsed is gone.
    fn forget_lapsed(&mut self, model: &Model, micros: i64) {
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

    /// What the server has, read without the scripts but for its life; and nothing besides.
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
        pipe.cmd("EXISTS").arg(ServerKind::Server.epoch_key()).cmd("DBSIZE");
        let values: Vec<Value> = pipe.query(&mut self.raw).unwrap();
        let life = self.sessions[0].node_command(NodeCommand::Look).await.unwrap().life;
        Seen::new(values, model.micros.div_euclid(1_000)).state(life)
    }
}
