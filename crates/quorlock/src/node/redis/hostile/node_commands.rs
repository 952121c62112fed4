//! Commands with arguments that no client of ours would send: by them no node ends its
//! quarantine early, lowers its floor, or says of itself what cannot be read.

use std::cell::RefCell;

use ::redis::{Client, Connection, ConnectionLike};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::name::Channel;
use quorlock_core::node::{Epoch, Identity, Incarnation, NodeCommand, Standing, Trust};
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::odd::{Call, Change, Odd, Which, changes};
use super::{constants, runtime};
use crate::node::RequestReply;
use crate::node::redis::resp::Commands;
use crate::node::redis::scripts::ServerKind;
use crate::node::redis::{RedisNode, codec};

const EPOCH: Epoch = Epoch(7);
const FRESH: Epoch = Epoch(8);
const RUN: &str = "run";
const HALF: u64 = 33_000_000;

/// How the node stands before the hostile node command.
#[derive(Clone, Copy, Debug)]
enum Before {
    Blank,
    Quarantined,
    /// Half of its quarantine has passed.
    HalfWay,
    Voting,
}

fn hello(run: &str, trust: Trust) -> NodeCommand {
    NodeCommand::Hello {
        identity: Identity::of_run(run),
        fresh: FRESH,
        constants: constants(),
        founders: "one,two".into(),
        trust,
    }
}

fn claim(elapsed_micros: u64) -> NodeCommand {
    NodeCommand::Claim { epoch: EPOCH, elapsed_micros }
}

fn reconfigure(trust: Trust, suspend: bool) -> NodeCommand {
    NodeCommand::Reconfigure { identity: Identity::of_run(RUN), fresh: FRESH, constants: constants(), trust, suspend }
}

fn init(fresh: Epoch) -> NodeCommand {
    NodeCommand::Init { identity: Identity::of_run(RUN), fresh, constants: constants() }
}

/// What a hostile client begins with.
fn node_commands() -> Vec<NodeCommand> {
    let trust = Trust::Vote { floor_offset: -5 };
    vec![
        NodeCommand::Look,
        hello(RUN, Trust::Quarantine),
        hello("another", Trust::Quarantine),
        hello("another", trust),
        claim(1),
        claim(HALF + 1),
        init(FRESH),
        reconfigure(Trust::Quarantine, false),
        reconfigure(trust, true),
    ]
}

/// All of them, as they are sent.
pub(super) fn calls() -> impl Iterator<Item = Call> {
    node_commands().into_iter().map(|node_command| call(&node_command))
}

fn call(node_command: &NodeCommand) -> Call {
    let mut commands = Commands::default();
    codec::script_call(ServerKind::Server, node_command, &mut commands);
    Call::read(commands.as_bytes())
}

struct Bench<'a> {
    server: &'a RedisServer,
    node: RedisNode,
    session: RequestReply,
    raw: Connection,
}

impl<'a> Bench<'a> {
    async fn open(server: &'a RedisServer) -> Self {
        let node = RedisNode::at(&server.url(), constants());
        let session = RequestReply::open(&node, Channel(0)).await.unwrap();
        Self { server, node, session, raw: Client::open(server.url()).unwrap().get_connection().unwrap() }
    }

    /// The node's answer, read as any client would.
    async fn say(&mut self, node_command: NodeCommand) -> Result<Standing, TestCaseError> {
        match self.session.node_command(node_command.clone()).await {
            Ok(standing) => Ok(standing),
            Err(trouble) => {
                // For the search of a shorter story.
                self.session = RequestReply::open(&self.node, Channel(0)).await.unwrap();
                Err(TestCaseError::fail(format!("{node_command:?} ends the connection: {trouble:?}")))
            }
        }
    }

    async fn prepare(&mut self, before: Before) -> Result<Option<Incarnation>, TestCaseError> {
        self.server.command(&["FLUSHALL"]);
        let first = match before {
            Before::Blank => NodeCommand::Look,
            Before::Quarantined | Before::HalfWay => NodeCommand::Hello {
                identity: Identity::of_run(RUN),
                fresh: EPOCH,
                constants: constants(),
                founders: String::new(),
                trust: Trust::Quarantine,
            },
            Before::Voting => init(EPOCH),
        };
        self.say(first).await?;
        if matches!(before, Before::HalfWay) {
            self.say(claim(HALF)).await?;
        }
        Ok(self.say(NodeCommand::Look).await?.life)
    }

    async fn run(&mut self, before: Before, node_command: &NodeCommand, changes: &[Change]) -> TestCaseResult {
        let before = self.prepare(before).await?;
        let mut call = call(node_command);
        call.change(changes, |_, _| false);
        let (lets_vote, claimed) = (lets_vote(&call), claimed(&call));
        let answered = self.raw.req_command(&call.command());

        let after = self.say(NodeCommand::Look).await?.life;
        if answered.is_err() {
            prop_assert_eq!(&after, &before, "an error, and yet it was done");
        }
        if let Some(after) = after {
            self.look_at(before.as_ref(), &after, lets_vote, claimed).await?;
        }
        // An operator can always repair it.
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
        claimed: u64,
    ) -> TestCaseResult {
        let (was_voting, is_voting) = (before.is_some_and(|life| life.floor.is_some()), after.floor.is_some());
        let is_over = claimed >= after.quarantine_micros;
        prop_assert!(!is_voting || was_voting || lets_vote || is_over, "it may vote early: {:?}", after);
        if let Some(before) = before {
            prop_assert!(!was_voting || !is_voting || after.floor >= before.floor, "{:?} after {:?}", after, before);
            prop_assert!(after.elapsed_micros <= before.elapsed_micros.max(claimed), "{:?}", after);
            prop_assert!(lets_vote || after.quarantine_micros >= before.quarantine_micros, "{:?}", after);
        }
        let Some(epoch) = after.epoch.filter(|_| !is_voting) else { return Ok(()) };
        // Claims still count, and the quarantine ends when all of it has passed: no sooner, and no later.
        if let Some(elapsed_micros) = after.quarantine_micros.checked_sub(1) {
            let almost = self.say(NodeCommand::Claim { epoch, elapsed_micros }).await?;
            prop_assert!(almost.accepted && almost.life.is_some_and(|life| life.floor.is_none()), "{:?}", after);
        }
        let whole = self.say(NodeCommand::Claim { epoch, elapsed_micros: after.quarantine_micros }).await?;
        let floor = whole.life.and_then(|life| life.floor);
        prop_assert_eq!((whole.accepted, floor.is_some()), (true, !after.suspended), "{:?}", after);
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

/// The time that is claimed to have passed, if it is a number as ours are written: none at all otherwise.
fn claimed(call: &Call) -> u64 {
    let micros = || number_in(call.argument(3)?);
    if call.argument(1) == Some(b"claim") { micros().unwrap_or(0) } else { 0 }
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
fn no_command_ends_a_quarantine_early() {
    each(|runtime, bench| {
        let before = select(vec![Before::Blank, Before::Quarantined, Before::HalfWay, Before::Voting]);
        let config = Config { failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(before, select(node_commands()), changes()), |(before, node_command, changes)| {
                runtime.block_on(bench.borrow_mut().run(before, &node_command, &changes))
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn commands_that_once_did_harm_do_none() {
    let (quarantine, voting) = (Trust::Quarantine, format!("{:032x} 99", FRESH.0));
    each(|runtime, bench| {
        for (before, node_command, number, value) in [
            // Enough for any quarantine, and numbers that nobody could read.
            (Before::HalfWay, claim(1), 3, "inf"),
            (Before::HalfWay, claim(1), 3, "1e15"),
            (Before::HalfWay, claim(1), 3, "nan"),
            (Before::HalfWay, claim(1), 3, "-1"),
            (Before::HalfWay, claim(1), 3, "-33000001"),
            (Before::HalfWay, claim(1), 3, "99999999999999999999"),
            // A life that brings its floor along.
            (Before::Quarantined, hello("another", quarantine), 3, &voting),
            (Before::Blank, hello(RUN, quarantine), 3, "zz"),
            // One that only its author could name.
            (Before::Blank, hello(RUN, quarantine), 3, "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"),
            // Nodes that nobody could read, or that were blank and yet refused everyone.
            (Before::Blank, hello(RUN, quarantine), 2, "\0"),
            (Before::Blank, hello(RUN, quarantine), 4, ""),
            (Before::Blank, hello(RUN, quarantine), 6, "nan"),
            (Before::Quarantined, claim(1), 3, "\n"),
            (Before::Voting, init(FRESH), 7, "nan"),
            (Before::Voting, hello("another", quarantine), 10, "inf"),
            // Suspended for good, and nobody is told.
            (Before::Quarantined, reconfigure(quarantine, false), 10, "x"),
        ] {
            let changes = [(Which::Number(number), Odd::Value(value.as_bytes().to_vec()))];
            let done = runtime.block_on(bench.borrow_mut().run(before, &node_command, &changes));
            done.unwrap_or_else(|error| {
                panic!("{value:?} as argument {number} of {node_command:?}, {before:?}: {error}")
            });
        }
    });
}

#[test]
fn a_claim_changes_nothing_on_a_node_that_may_vote() {
    each(|runtime, bench| {
        let bench = &mut *bench.borrow_mut();
        let floor = runtime.block_on(bench.prepare(Before::Voting)).unwrap().and_then(|life| life.floor).unwrap();
        let epoch_text = format!("{:032x} {}", EPOCH.0, floor.get()).into_bytes();
        for epoch in [epoch_text, format!("{:032x}", EPOCH.0).into_bytes()] {
            let mut call = call(&claim(u64::from(u32::MAX)));
            call.change(&[(Which::Number(2), Odd::Value(epoch))], |_, _| false);
            let answered = bench.raw.req_command(&call.command());
            let life = runtime.block_on(bench.say(NodeCommand::Look)).unwrap().life.unwrap();
            assert!(life.floor == Some(floor) && life.elapsed_micros == 0, "{answered:?} and {life:?}");
        }
    });
}
