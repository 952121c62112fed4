//! Errands with arguments that no client of ours would send: no node ripens by them before its time, lowers its floor, or says of
//! itself what cannot be read.

use std::cell::RefCell;

use ::redis::{Client, Connection, ConnectionLike};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::node::{Epoch, Errand, Identity, Incarnation, Standing, Trust};
use quorlock_core::ticket::Channel;
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::odd::{Call, Change, Odd, Which, changes};
use super::{constants, runtime};
use crate::node::Talk;
use crate::node::redis::scripts::Home;
use crate::node::redis::{RedisNode, codec};

const EPOCH: Epoch = Epoch(7);
const FRESH: Epoch = Epoch(8);
const WITNESS: u128 = 0xa;
const OTHER: u128 = 0xb;
const RUN: &str = "run";
const HALF: u64 = 33_000_000;

/// How the node stands before the hostile errand.
#[derive(Clone, Copy, Debug)]
enum Before {
    Blank,
    Unripe,
    /// For half of its quarantine.
    Witnessed,
    Ripe,
}

fn hello(run: &str, trust: Trust) -> Errand {
    Errand::Hello {
        identity: Identity::of_run(run),
        fresh: FRESH,
        constants: constants(),
        founders: "one,two".into(),
        trust,
    }
}

fn add(witness: u128, micros: u64) -> Errand {
    Errand::Add { epoch: EPOCH, witness, micros }
}

fn reconfigure(trust: Trust, suspend: bool) -> Errand {
    Errand::Reconfigure { identity: Identity::of_run(RUN), fresh: FRESH, constants: constants(), trust, suspend }
}

fn init(fresh: Epoch) -> Errand {
    Errand::Init { identity: Identity::of_run(RUN), fresh, constants: constants() }
}

/// What a hostile client begins with.
fn errands() -> Vec<Errand> {
    let trust = Trust::Vote { floor_offset: -5 };
    vec![
        Errand::Look,
        hello(RUN, Trust::Quarantine),
        hello("another", Trust::Quarantine),
        hello("another", trust),
        Errand::Witness { epoch: EPOCH, witness: WITNESS },
        Errand::Witness { epoch: EPOCH, witness: OTHER },
        add(WITNESS, 1),
        add(OTHER, HALF),
        Errand::Ripen { epoch: EPOCH },
        init(FRESH),
        reconfigure(Trust::Quarantine, false),
        reconfigure(trust, true),
    ]
}

/// All of them, as they are sent.
pub(super) fn calls() -> impl Iterator<Item = Call> {
    errands().into_iter().map(|errand| call(&errand))
}

fn call(errand: &Errand) -> Call {
    Call::read(&codec::errand(Home::Server, errand).get_packed_command())
}

struct Bench<'a> {
    server: &'a RedisServer,
    node: RedisNode,
    session: Talk,
    raw: Connection,
}

impl<'a> Bench<'a> {
    async fn open(server: &'a RedisServer) -> Self {
        let node = RedisNode::new(&server.url(), None, constants(), std::time::Duration::from_secs(60)).unwrap();
        let session = Talk::open(&node, Channel(0)).await.unwrap();
        Self { server, node, session, raw: Client::open(server.url()).unwrap().get_connection().unwrap() }
    }

    /// The node's answer, read as any client would.
    async fn say(&mut self, errand: Errand) -> Result<Standing, TestCaseError> {
        match self.session.errand(errand.clone()).await {
            Ok(standing) => Ok(standing),
            Err(trouble) => {
                // For the search of a shorter story.
                self.session = Talk::open(&self.node, Channel(0)).await.unwrap();
                Err(TestCaseError::fail(format!("{errand:?} ends the connection: {trouble:?}")))
            }
        }
    }

    async fn prepare(&mut self, before: Before) -> Result<Option<Incarnation>, TestCaseError> {
        self.server.command(&["FLUSHALL"]);
        let first = match before {
            Before::Blank => Errand::Look,
            Before::Unripe | Before::Witnessed => Errand::Hello {
                identity: Identity::of_run(RUN),
                fresh: EPOCH,
                constants: constants(),
                founders: String::new(),
                trust: Trust::Quarantine,
            },
            Before::Ripe => init(EPOCH),
        };
        self.say(first).await?;
        if matches!(before, Before::Witnessed) {
            self.say(Errand::Witness { epoch: EPOCH, witness: WITNESS }).await?;
            self.say(add(WITNESS, HALF)).await?;
        }
        Ok(self.say(Errand::Look).await?.life)
    }

    async fn run(&mut self, before: Before, errand: &Errand, changes: &[Change]) -> TestCaseResult {
        let before = self.prepare(before).await?;
        let mut call = call(errand);
        call.change(changes, |_, _| false);
        let (lets_vote, added) = (lets_vote(&call), added(&call));
        let answered = self.raw.req_command(&call.command());

        let after = self.say(Errand::Look).await?.life;
        if answered.is_err() {
            prop_assert_eq!(&after, &before, "an error, and yet it was done");
        }
        if let Some(after) = after {
            self.look_at(before.as_ref(), &after, lets_vote, added).await?;
        }
        // Whatever it was, an operator can set it right.
        let floor = before.and_then(|before| before.floor);
        let declared = self.say(init(Epoch(9))).await?.life.and_then(|life| life.floor);
        prop_assert!(declared.is_some() && declared >= floor, "{:?} after {:?}", declared, floor);
        Ok(())
    }

    async fn look_at(
        &mut self,
        before: Option<&Incarnation>,
        after: &Incarnation,
        lets_vote: bool,
        added: u64,
    ) -> TestCaseResult {
        let (was_ripe, is_ripe) = (before.is_some_and(|life| life.floor.is_some()), after.floor.is_some());
        prop_assert!(!is_ripe || was_ripe || lets_vote, "ripe before its time: {:?}", after);
        if let Some(before) = before {
            prop_assert!(!was_ripe || !is_ripe || after.floor >= before.floor, "{:?} after {:?}", after, before);
            prop_assert!(after.witnessed_micros <= before.witnessed_micros.saturating_add(added), "{:?}", after);
            prop_assert!(lets_vote || after.quarantine_micros >= before.quarantine_micros, "{:?}", after);
        }
        let Some(epoch) = after.epoch.filter(|_| !is_ripe) else { return Ok(()) };
        // Somebody can go on to witness it, and it ripens when it has been for long enough: no sooner, and no later.
        let witness = after.witness.map_or(WITNESS, |(witness, _)| witness);
        let taken = self.say(Errand::Witness { epoch, witness }).await?;
        prop_assert!(taken.accepted, "nobody can witness {:?}", after);
        let is_due = |life: &Incarnation| !life.suspended && life.witnessed_micros >= life.quarantine_micros;
        let ripened = self.say(Errand::Ripen { epoch }).await?;
        prop_assert_eq!(ripened.accepted, is_due(after), "{:?}", after);
        if ripened.accepted {
            return Ok(());
        }
        let micros = after.quarantine_micros - after.witnessed_micros.min(after.quarantine_micros);
        self.say(Errand::Add { epoch, witness, micros }).await?;
        let ripened = self.say(Errand::Ripen { epoch }).await?;
        prop_assert_eq!(ripened.accepted, !after.suspended, "{:?}", after);
        Ok(())
    }
}

/// Whether a client gives its word that the node may vote at once: as an operator, or by trusting restarts.
fn lets_vote(call: &Call) -> bool {
    let is_plain =
        |number| call.argument(number).is_some_and(|word| number_in(word.strip_prefix(b"-").unwrap_or(word)).is_some());
    match call.argument(1) {
        Some(b"init") => true,
        Some(b"hello") => is_plain(10),
        Some(b"reconfigure") => is_plain(9),
        _ => false,
    }
}

/// How long a witness says to have counted, if it is a number as ours are written: none at all otherwise.
fn added(call: &Call) -> u64 {
    let micros = || number_in(call.argument(4)?);
    if call.argument(1) == Some(b"add") { micros().unwrap_or(0) } else { 0 }
}

fn number_in(word: &[u8]) -> Option<u64> {
    word.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(word).ok()?.parse().ok())?
}

fn each(story: impl Fn(&Runtime, &RefCell<Bench<'_>>)) {
    let (runtime, server) = (runtime(), RedisServer::start());
    let bench = RefCell::new(runtime.block_on(Bench::open(&server)));
    story(&runtime, &bench);
}

#[test]
fn no_node_ripens_before_its_time_by_what_it_is_told() {
    each(|runtime, bench| {
        let before = select(vec![Before::Blank, Before::Unripe, Before::Witnessed, Before::Ripe]);
        let config = Config { failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(before, select(errands()), changes()), |(before, errand, changes)| {
                runtime.block_on(bench.borrow_mut().run(before, &errand, &changes))
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn errands_that_once_did_harm_do_none() {
    let (quarantine, ripe) = (Trust::Quarantine, format!("{:032x} 99", FRESH.0));
    each(|runtime, bench| {
        for (before, errand, number, value) in [
            // Enough for any quarantine, and sums that nobody could read.
            (Before::Witnessed, add(WITNESS, 1), 4, "inf"),
            (Before::Witnessed, add(WITNESS, 1), 4, "1e15"),
            (Before::Witnessed, add(WITNESS, 1), 4, "nan"),
            (Before::Witnessed, add(WITNESS, 1), 4, "-1"),
            (Before::Witnessed, add(WITNESS, 1), 4, "-33000001"),
            (Before::Witnessed, add(WITNESS, 1), 4, "99999999999999999999"),
            // A life that brings its floor along.
            (Before::Unripe, hello("another", quarantine), 3, &ripe),
            (Before::Blank, hello(RUN, quarantine), 3, "zz"),
            // One that only its author could name.
            (Before::Blank, hello(RUN, quarantine), 3, "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"),
            // Nodes that nobody could read, or that were blank and yet refused everyone.
            (Before::Blank, hello(RUN, quarantine), 2, "\0"),
            (Before::Blank, hello(RUN, quarantine), 4, ""),
            (Before::Blank, hello(RUN, quarantine), 6, "nan"),
            (Before::Unripe, Errand::Witness { epoch: EPOCH, witness: WITNESS }, 3, "\n"),
            (Before::Ripe, init(FRESH), 7, "nan"),
            (Before::Ripe, hello("another", quarantine), 9, "inf"),
            // Suspended for good, and nobody is told.
            (Before::Unripe, reconfigure(quarantine, false), 9, "x"),
        ] {
            let changes = [(Which::Number(number), Odd::Value(value.as_bytes().to_vec()))];
            let done = runtime.block_on(bench.borrow_mut().run(before, &errand, &changes));
            done.unwrap_or_else(|error| panic!("{value:?} as argument {number} of {errand:?}, {before:?}: {error}"));
        }
    });
}

#[test]
fn a_node_that_is_ripe_cannot_be_told_to_ripen_again() {
    each(|runtime, bench| {
        let bench = &mut *bench.borrow_mut();
        let floor = runtime.block_on(bench.prepare(Before::Ripe)).unwrap().and_then(|life| life.floor).unwrap();
        let mark = format!("{:032x} {}", EPOCH.0, floor.get()).into_bytes();
        for errand in [Errand::Ripen { epoch: EPOCH }, Errand::Witness { epoch: EPOCH, witness: WITNESS }] {
            let mut call = call(&errand);
            call.change(&[(Which::Number(2), Odd::Value(mark.clone()))], |_, _| false);
            let answered = bench.raw.req_command(&call.command());
            let life = runtime.block_on(bench.say(Errand::Look)).unwrap().life.unwrap();
            assert!(life.floor == Some(floor) && life.witness.is_none(), "{answered:?} and {life:?}");
        }
    });
}
