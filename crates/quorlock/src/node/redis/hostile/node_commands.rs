//! Node commands with arguments that no client of ours would send. They must not end a quarantine early, lower the
//! floor of a node, or make the state of a node unreadable.

use std::cell::RefCell;

use ::redis::{Client, Connection, ConnectionLike, Value};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::name::Channel;
use quorlock_core::node::{Epoch, Identity, Incarnation, NodeCommand, Standing, Trust};
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::changed_call::{Argument, Call, Change, Replacement, changes};
use super::{constants, runtime};
use crate::node::RequestReply;
use crate::node::redis::resp::Commands;
use crate::node::redis::scripts::ServerKind;
use crate::node::redis::{RedisNode, codec};

const EPOCH: Epoch = Epoch(7);
const FRESH: Epoch = Epoch(8);
const RUN: &str = "run";
/// Half of a quarantine, in microseconds.
const HALF: u64 = 33_000_000;

/// The state of the node before the hostile command.
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

/// Returns valid commands, whose arguments a hostile client then changes.
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

/// Returns the call of each of these commands.
pub(super) fn calls() -> impl Iterator<Item = Call> {
    node_commands().into_iter().map(|node_command| call(&node_command))
}

fn call(node_command: &NodeCommand) -> Call {
    let mut commands = Commands::default();
    codec::script_call(ServerKind::Server, node_command, &mut commands);
    Call::read(commands.as_bytes())
}

/// A node, with a session of a client, and a connection for the changed calls.
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

    /// Sends a command, and parses the reply as every client does.
    async fn ask(&mut self, node_command: NodeCommand) -> Result<Standing, TestCaseError> {
        match self.session.node_command(node_command.clone()).await {
            Ok(standing) => Ok(standing),
            Err(trouble) => {
                // Reconnect, so that proptest can look for a shorter failing case.
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
        self.ask(first).await?;
        if matches!(before, Before::HalfWay) {
            self.ask(claim(HALF)).await?;
        }
        Ok(self.ask(NodeCommand::Look).await?.life)
    }

    async fn run(&mut self, before: Before, node_command: &NodeCommand, changes: &[Change]) -> TestCaseResult {
        let before = self.prepare(before).await?;
        let mut call = call(node_command);
        call.change(changes, |_, _| false);
        let (lets_vote, claimed) = (lets_vote(&call), claimed_micros(&call));
        let answered = self.raw.req_command(&call.command()).and_then(Value::extract_error);

        let after = self.ask(NodeCommand::Look).await?.life;
        if answered.is_err() {
            prop_assert_eq!(&after, &before, "the command failed, but changed the node");
        }
        if let Some(after) = after {
            self.check_life(before.as_ref(), &after, lets_vote, claimed).await?;
        }
        // An operator can always repair the node.
        let floor = before.and_then(|before| before.floor);
        let new_floor = self.ask(init(Epoch(9))).await?.life.and_then(|life| life.floor);
        prop_assert!(new_floor.is_some() && new_floor >= floor, "{:?} after {:?}", new_floor, floor);
        Ok(())
    }

    async fn check_life(
        &mut self,
        before: Option<&Incarnation>,
        after: &Incarnation,
        lets_vote: bool,
        claimed: u64,
    ) -> TestCaseResult {
        let (was_voting, is_voting) = (before.is_some_and(|life| life.floor.is_some()), after.floor.is_some());
        let is_over = claimed >= after.quarantine_micros;
        prop_assert!(!is_voting || was_voting || lets_vote || is_over, "the node may vote early: {:?}", after);
        if let Some(before) = before {
            prop_assert!(!was_voting || !is_voting || after.floor >= before.floor, "{:?} after {:?}", after, before);
            prop_assert!(after.elapsed_micros <= before.elapsed_micros.max(claimed), "{:?}", after);
            prop_assert!(lets_vote || after.quarantine_micros >= before.quarantine_micros, "{:?}", after);
        }
        let Some(epoch) = after.epoch.filter(|_| !is_voting) else { return Ok(()) };
        // The node still accepts claims, and its quarantine ends exactly when the whole time has passed.
        if let Some(elapsed_micros) = after.quarantine_micros.checked_sub(1) {
            let almost = self.ask(NodeCommand::Claim { epoch, elapsed_micros }).await?;
            prop_assert!(almost.accepted && almost.life.is_some_and(|life| life.floor.is_none()), "{:?}", after);
        }
        let whole = self.ask(NodeCommand::Claim { epoch, elapsed_micros: after.quarantine_micros }).await?;
        let floor = whole.life.and_then(|life| life.floor);
        prop_assert_eq!((whole.accepted, floor.is_some()), (true, !after.suspended), "{:?}", after);
        Ok(())
    }
}

/// Returns whether the call lets the node vote at once: it is from an operator, or from a client that trusts restarts.
fn lets_vote(call: &Call) -> bool {
    let is_offset =
        |number| call.argument(number).is_some_and(|word| parse_u64(word.strip_prefix(b"-").unwrap_or(word)).is_some());
    match call.argument(1) {
        Some(b"init") => true,
        Some(b"hello") => is_offset(10),
        Some(b"reconfigure") => is_offset(9),
        _ => false,
    }
}

/// Returns the time that the call claims to have passed; zero if the call makes no valid claim.
fn claimed_micros(call: &Call) -> u64 {
    let micros = || parse_u64(call.argument(3)?);
    if call.argument(1) == Some(b"claim") { micros().unwrap_or(0) } else { 0 }
}

fn parse_u64(word: &[u8]) -> Option<u64> {
    word.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(word).ok()?.parse().ok())?
}

fn with_bench(test: impl Fn(&Runtime, &RefCell<Bench<'_>>)) {
    let (runtime, server) = (runtime(), RedisServer::start());
    let bench = RefCell::new(runtime.block_on(Bench::open(&server)));
    test(&runtime, &bench);
}

#[test]
fn no_command_ends_a_quarantine_early() {
    with_bench(|runtime, bench| {
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
fn arguments_that_once_damaged_a_node_are_harmless() {
    let (quarantine, voting) = (Trust::Quarantine, format!("{:032x} 99", FRESH.0));
    with_bench(|runtime, bench| {
        for (before, node_command, number, value) in [
            // A time that is longer than any quarantine, and numbers that could not be read.
            (Before::HalfWay, claim(1), 3, "inf"),
            (Before::HalfWay, claim(1), 3, "1e15"),
            (Before::HalfWay, claim(1), 3, "nan"),
            (Before::HalfWay, claim(1), 3, "-1"),
            (Before::HalfWay, claim(1), 3, "-33000001"),
            (Before::HalfWay, claim(1), 3, "99999999999999999999"),
            // An epoch with a floor, which would let the node vote.
            (Before::Quarantined, hello("another", quarantine), 3, &voting),
            (Before::Blank, hello(RUN, quarantine), 3, "zz"),
            // An epoch in capitals, which no other client could repeat.
            (Before::Blank, hello(RUN, quarantine), 3, "ABCDEFABCDEFABCDEFABCDEFABCDEFAB"),
            // Values that made the state of the node unreadable, or a blank node refuse every client.
            (Before::Blank, hello(RUN, quarantine), 2, "\0"),
            (Before::Blank, hello(RUN, quarantine), 4, ""),
            (Before::Blank, hello(RUN, quarantine), 6, "nan"),
            (Before::Quarantined, claim(1), 3, "\n"),
            (Before::Voting, init(FRESH), 7, "nan"),
            (Before::Voting, hello("another", quarantine), 10, "inf"),
            // A flag that suspended the node forever, without any client noticing.
            (Before::Quarantined, reconfigure(quarantine, false), 10, "x"),
        ] {
            let changes = [(Argument::Number(number), Replacement::Value(value.as_bytes().to_vec()))];
            let done = runtime.block_on(bench.borrow_mut().run(before, &node_command, &changes));
            done.unwrap_or_else(|error| {
                panic!("{value:?} as argument {number} of {node_command:?}, {before:?}: {error}")
            });
        }
    });
}

#[test]
fn a_claim_changes_nothing_on_a_node_that_may_vote() {
    with_bench(|runtime, bench| {
        let bench = &mut *bench.borrow_mut();
        let floor = runtime.block_on(bench.prepare(Before::Voting)).unwrap().and_then(|life| life.floor).unwrap();
        let epoch_text = format!("{:032x} {}", EPOCH.0, floor.get()).into_bytes();
        for epoch in [epoch_text, format!("{:032x}", EPOCH.0).into_bytes()] {
            let mut call = call(&claim(u64::from(u32::MAX)));
            call.change(&[(Argument::Number(2), Replacement::Value(epoch))], |_, _| false);
            let answered = bench.raw.req_command(&call.command());
            let life = runtime.block_on(bench.ask(NodeCommand::Look)).unwrap().life.unwrap();
            assert!(life.floor == Some(floor) && life.elapsed_micros == 0, "{answered:?} and {life:?}");
        }
    });
}
