//! The scripts against the core: the same requests at the same times, the same answers, the same state.

mod model;
mod steps;

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, FromRedisValue, Value, from_redis_value, pipe};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Errand, FenceNote, Record, VoteNote};
use quorlock_testkit::{Clock, RedisServer};
use tokio::runtime::Runtime;

use super::RedisNode;
use super::scripts::{epoch_key, fence_key, tombstone_key};
use crate::node::{Letter, Node, Reply, Session};
use model::{Model, State, attempts, constants};
use steps::{CONSTANTS, Step, Visit, stories};

const CASES: u32 = 300;

#[test]
fn the_scripts_do_what_the_core_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    let bench = std::cell::RefCell::new(runtime.block_on(Bench::open(&server, clock)));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&stories(), |(first, steps)| bench.borrow_mut().run(&runtime, first, steps))
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// A server whose clock stands still, and sessions with it, one for each set of constants.
struct Bench {
    clock: Clock,
    sessions: Vec<Box<dyn Session>>,
    raw: MultiplexedConnection,
}

impl Bench {
    async fn open(server: &RedisServer, clock: Clock) -> Self {
        let node = |set| RedisNode::new(&server.url(), constants(set), Duration::from_secs(5)).unwrap();
        let mut sessions = Vec::new();
        for set in 0..CONSTANTS {
            sessions.push(node(set).open().await.unwrap());
        }
        // Without a deadline: a machine that is busy must not look like a difference.
        let patient = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let raw = node(0).client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
        Self { clock, sessions, raw }
    }

    fn run(&mut self, runtime: &Runtime, first: Visit, steps: Vec<Step>) -> TestCaseResult {
        let mut model = Model::new();
        runtime.block_on(async {
            self.clock.freeze_at_micros(model.micros);
            self.wipe().await;
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
                model.pass(jump);
                self.clock.freeze_at_micros(model.micros);
            }
            Step::Send { life, batch } => {
                let life = model.life(*life);
                let names: Vec<usize> = batch.iter().map(|letter| letter.name).collect();
                let letters: Vec<Letter> = batch
                    .iter()
                    .map(|letter| Letter {
                        place: model.places[letter.name].clone(),
                        request: model.request(letter).into(),
                    })
                    .collect();
                let replies = self.sessions[model.kin()].send(life, letters.clone()).await.unwrap();
                prop_assert_eq!(replies.len(), letters.len());
                for ((reply, letter), name) in replies.into_iter().zip(letters).zip(names) {
                    let vote = model.answer(life, name, &letter.request);
                    // The page's own commands do not tell the time.
                    let at_micros = (!letter.request.is_plain()).then_some(model.micros.unsigned_abs());
                    prop_assert_eq!(reply, Reply::Voted { vote, at_micros }, "to {:?} in {:?}", letter, step);
                }
            }
            Step::Visit(visit) => {
                let errand = model.errand(visit);
                let standing = self.sessions[0].errand(errand.clone()).await.unwrap();
                prop_assert_eq!(standing, model.attend(&errand), "to {:?}", errand);
            }
            Step::WipeEpoch => {
                self.command(&["DEL", &epoch_key()]).await;
                model.wipe_epoch();
            }
            Step::WipeAll => {
                self.wipe().await;
                model.wipe_all();
            }
            Step::NearTheLastFence { name, below } => {
                let key = fence_key(&model.places[*name]);
                let FenceNote { fence, by, since_micros, holder, .. } = model.plant(*name, *below);
                let value = format!("{fence} {} {since_micros} {holder}", by.reveal());
                self.command(&["SET", &key, &value, "PX", "60000"]).await;
            }
        }
        Ok(())
    }

    async fn wipe(&mut self) {
        self.command(&["FLUSHALL"]).await;
    }

    async fn command(&mut self, words: &[&str]) {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]).exec_async(&mut self.raw).await.unwrap();
    }

    /// What the server has, read without the scripts but for its life; and nothing besides.
    async fn state(&mut self, model: &Model) -> Result<State, TestCaseError> {
        let millis = model.micros.div_euclid(1_000);
        let mut pipe = pipe();
        for key in model.places.iter().flat_map(|place| [place.key.clone(), fence_key(place)]) {
            pipe.cmd("GET").arg(&key).cmd("PTTL").arg(&key);
        }
        for attempt in attempts() {
            pipe.cmd("PTTL").arg(tombstone_key(attempt));
        }
        pipe.cmd("EXISTS").arg(epoch_key()).cmd("DBSIZE");
        let values: Vec<Value> = pipe.query_async(&mut self.raw).await.unwrap();
        let life = self.sessions[0].errand(Errand::Look).await.unwrap().life;

        let mut seen = Seen { values: values.into_iter(), millis };
        let mut records = Vec::new();
        for _ in &model.places {
            records.push(Record { vote: seen.vote()?, fence: seen.fence()?, tombstone: None });
        }
        let tombstones = attempts().filter_map(|attempt| Some((attempt, seen.end()?))).collect();
        let state = State { life, records: records.try_into().unwrap(), tombstones };
        let marks: usize = seen.next();
        prop_assert_eq!(seen.next::<usize>(), state.keys() + marks, "keys that nobody knows");
        Ok(state)
    }
}

/// What the server told, in order.
struct Seen {
    values: std::vec::IntoIter<Value>,
    millis: i64,
}

impl Seen {
    fn next<T: FromRedisValue>(&mut self) -> T {
        from_redis_value(self.values.next().unwrap()).unwrap()
    }

    /// The last millisecond of a key; `None` for one that is not there, or has no end.
    fn end(&mut self) -> Option<u64> {
        let left: i64 = self.next();
        (left >= 0).then(|| (self.millis + left).unsigned_abs())
    }

    fn vote(&mut self) -> Result<Option<VoteNote>, TestCaseError> {
        self.note(|text, until| Some(VoteNote { attempt: LeaseId::parse(text)?, until }))
    }

    fn fence(&mut self) -> Result<Option<FenceNote>, TestCaseError> {
        self.note(|text, until| {
            let [fence, by, since, holder] = text.splitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
            let (by, since_micros) = (LeaseId::parse(by)?, since.parse().ok()?);
            Some(FenceNote { fence: Fence::new(fence.parse().ok()?), by, since_micros, holder: holder.into(), until })
        })
    }

    fn note<T>(&mut self, read: impl Fn(&str, u64) -> Option<T>) -> Result<Option<T>, TestCaseError> {
        let (text, end): (Option<String>, _) = (self.next(), self.end());
        let Some(text) = text else { return Ok(None) };
        let note = end.and_then(|end| read(&text, end));
        prop_assert!(note.is_some(), "what is {:?}, until {:?}?", text, end);
        Ok(note)
    }
}

impl State {
    /// How many keys it takes to store this, without the epoch's.
    fn keys(&self) -> usize {
        let records = self.records.iter().map(|r| usize::from(r.vote.is_some()) + usize::from(r.fence.is_some()));
        records.sum::<usize>() + self.tombstones.len() + usize::from(self.life.is_some())
    }
}
