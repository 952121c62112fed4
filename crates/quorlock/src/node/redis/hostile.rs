//! Calls the scripts with arguments that no client of ours would send. Such a call must not take a lock that another client
//! holds exclusively, and all other clients must still be able to use the name.

mod changed_call;
mod node_commands;
mod roster_commands;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Client, Connection, ConnectionLike, Value};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name, OwnerId};
use quorlock_core::node::{Constants, Epoch, NodeCommand};
use quorlock_core::request::{BreakMode, Parting, Request, Target, Ticket, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{Refusal, Vote};
use quorlock_testkit::RedisServer;
use tokio::runtime::Runtime;

use super::codec::Bundles;
use super::resp::Commands;
use super::scripts::{Script, ServerKind, companion, companion_key};
use super::{RedisNode, codec};
use crate::node::key::KeyTemplate;
use crate::node::{Life, LockKey, Message, Reply, RequestReply, Search};
use changed_call::{Argument, Call, Change, Replacement, changes};

const HOLDER: u128 = 0xa;
const HOSTILE: u128 = 0xb;
const OTHER: u128 = 0xc;
/// Tells the numbers in a reply apart: the node's clock and granted fences are microseconds since 1970, which are above this
/// number, and reply codes are below it.
const MICROS_MIN: i64 = 1_000_000;

/// A name's state before the hostile call.
#[derive(Clone, Copy, Debug)]
enum Before {
    Free,
    Held,
    HeldAndWaitedFor,
    Shared,
    WaitedFor,
    /// Held by the hostile client.
    Own,
}

fn waiter(at: u64) -> Waiter {
    Waiter { ticket: Ticket { at, id: at }, channel: Channel(9), shared: false }
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap()
}

fn acquire(attempt: u128, proposal: Fence, mode: Mode, ticket: Option<u64>) -> Request {
    let holder = "7 host label".into();
    Request::Acquire {
        attempt: LeaseId::from_bits(attempt),
        proposal,
        ttl: ttl(),
        holder,
        mode,
        waiter: ticket.map(waiter),
    }
}

fn release(attempt: u128, ticket: Option<u64>) -> Request {
    let (attempt, parting) = (LeaseId::from_bits(attempt), ticket.map(|ticket| Parting::Leave(waiter(ticket))));
    Request::Release { attempt, tombstone: None, parting }
}

/// A valid question, whose arguments a hostile client then changes.
#[derive(Clone, Debug)]
enum Question {
    /// A request of the hostile client about a name.
    Request(Request),
    /// A search for names.
    Search,
}

fn questions() -> Vec<Question> {
    let attempt = LeaseId::from_bits(HOSTILE);
    let owner = OwnerId::from_bits(HOSTILE);
    let fence = Fence::new(1);
    let renew = |repair, mode| {
        let holder = "7 host label".into();
        Request::Renew { attempt, fence, ttl: ttl(), repair, holder, mode }
    };
    let slot = Mode::Slot { permits: 3, slot: 1 };
    let requests = [
        acquire(HOSTILE, fence, Mode::EXCLUSIVE, Some(5)),
        acquire(HOSTILE, fence, Mode::EXCLUSIVE, None),
        acquire(HOSTILE, fence, Mode::Exclusive { writer: Some(owner) }, Some(5)),
        acquire(HOSTILE, fence, Mode::Reentrant { owner }, Some(5)),
        acquire(HOSTILE, fence, Mode::Shared { owner, reenters: false }, None),
        acquire(HOSTILE, fence, slot, Some(5)),
        renew(true, Mode::EXCLUSIVE),
        renew(false, Mode::EXCLUSIVE),
        renew(true, Mode::Shared { owner, reenters: false }),
        renew(true, slot),
        release(HOSTILE, Some(5)),
        release(HOSTILE, None),
        Request::Release { attempt, tombstone: Some(1_000), parting: Some(Parting::Yield(waiter(5))) },
        Request::Retire { owner, tombstone: 1_000 },
        Request::Inspect,
        Request::Check { attempt, slot: Some(1) },
        Request::Break { target: Target::Fence(fence), mode: BreakMode::Drain },
        Request::PlainExtend { attempt, ttl: ttl() },
        Request::PlainRelease { attempt },
    ];
    requests.map(Question::Request).into_iter().chain([Question::Search]).collect()
}

/// A node, with a session of a client, and a connection for the changed calls.
struct HostileTest {
    node: RedisNode,
    session: RequestReply,
    life: Life,
    raw: Connection,
    template: KeyTemplate,
    names: u64,
}

fn constants() -> Constants {
    Constants { cluster: "c".into(), nodes: 1, max_ttl_millis: 60_000, max_skew_micros: 10_000_000 }
}

impl HostileTest {
    async fn open(server: &RedisServer) -> Self {
        let node = RedisNode::at(&server.url(), constants());
        let mut session = RequestReply::open(&node, Channel(0)).await.unwrap();
        let (identity, fresh) = (session.identity().clone(), Epoch(7));
        let standing =
            session.node_command(NodeCommand::Init { identity, fresh, constants: constants() }).await.unwrap();
        let life = standing.life.unwrap();
        let life = Life { epoch: life.epoch.unwrap(), floor: life.floor.unwrap() };
        let raw = Client::open(server.url()).unwrap().get_connection().unwrap();
        Self { node, session, life, raw, template: KeyTemplate::new(KeyTemplate::DEFAULT).unwrap(), names: 0 }
    }

    /// Sends a request, and parses the reply as every client does.
    async fn ask(&mut self, key: &Arc<LockKey>, request: Request) -> Result<Vote, TestCaseError> {
        let message = Message { key: Arc::clone(key), request: Arc::new(request) };
        match self.session.send(Some(self.life), vec![message.clone()]).await {
            Ok(mut replies) => match replies.remove(0) {
                Reply::Voted { vote, .. } => Ok(vote),
                Reply::Failed(why) | Reply::Moved(why) => {
                    Err(TestCaseError::fail(format!("{message:?} is answered with: {why}")))
                }
            },
            Err(trouble) => {
                // Reconnect, so that proptest can look for a shorter failing case.
                self.session = RequestReply::open(&self.node, Channel(0)).await.unwrap();
                Err(TestCaseError::fail(format!("{message:?} ends the connection: {trouble:?}")))
            }
        }
    }

    /// Tests one changed question. If `bundled` is set, sends the request together with a request about another name,
    /// unless such requests cannot be bundled.
    async fn run(&mut self, before: Before, question: &Question, changes: &[Change], bundled: bool) -> TestCaseResult {
        self.names += 1;
        let name = Name::new(&format!("name-{}", self.names)).unwrap();
        let key = Arc::new(self.template.key(&name).unwrap());
        let (held_by_other, waited, mode) = match before {
            Before::Free | Before::Own => (false, false, Mode::EXCLUSIVE),
            Before::Held => (true, false, Mode::EXCLUSIVE),
            Before::HeldAndWaitedFor => (true, true, Mode::EXCLUSIVE),
            Before::Shared => (true, false, Mode::Shared { owner: OwnerId::from_bits(HOLDER), reenters: false }),
            Before::WaitedFor => (false, true, Mode::EXCLUSIVE),
        };
        let first = self.ask(&key, acquire(HOLDER, Fence::new(1), mode, None)).await?;
        let Vote::Grant { fence, .. } = first else { return Err(TestCaseError::fail(format!("{first:?}"))) };
        if waited {
            self.ask(&key, acquire(OTHER, Fence::new(1), Mode::EXCLUSIVE, Some(3))).await?;
        }
        if !held_by_other {
            self.ask(&key, release(HOLDER, None)).await?;
        }
        if matches!(before, Before::Own) {
            self.ask(&key, acquire(HOSTILE, Fence::new(1), mode, None)).await?;
        }

        let answer = self.provoke(&key, question, changes, bundled);
        let hostile_fence = granted_fence(&answer);
        let is_shared = matches!(before, Before::Shared);
        prop_assert!(
            !held_by_other || is_shared || hostile_fence.is_none(),
            "granted a lock that is held: {:?}",
            answer
        );

        // All other clients can still use the name.
        let Vote::Report(report) = self.ask(&key, Request::Inspect).await? else { panic!("not a report") };
        prop_assert!(report.fence >= fence, "the fence went back to {:?}", report.fence);
        if held_by_other {
            let check = Request::Check { attempt: LeaseId::from_bits(HOLDER), slot: None };
            let checked = self.ask(&key, check).await?;
            prop_assert!(matches!(checked, Vote::Standing { remaining: Some(_) }), "{:?}", checked);
            let holder = "7 host label".into();
            let attempt = LeaseId::from_bits(HOLDER);
            let renewed =
                self.ask(&key, Request::Renew { attempt, fence, ttl: ttl(), repair: true, holder, mode }).await?;
            prop_assert!(matches!(renewed, Vote::Grant { .. }), "{:?}", renewed);
            let refused = self.ask(&key, acquire(OTHER, Fence::new(1), Mode::EXCLUSIVE, None)).await?;
            prop_assert!(matches!(refused, Vote::Refusal(Refusal::Held { .. })), "{:?}", refused);
            self.ask(&key, release(HOLDER, None)).await?;
        }
        self.ask(&key, release(HOSTILE, Some(5))).await?;
        // The lowest possible ticket precedes all others.
        let last_vote = self.ask(&key, acquire(OTHER, Fence::new(1), Mode::EXCLUSIVE, Some(0))).await?;
        match last_vote {
            Vote::Grant { fence: last_fence, .. } => {
                let highest = hostile_fence.map_or(fence, |given| fence.max(Fence::new(given.unsigned_abs())));
                prop_assert!(last_fence > highest, "{:?} is not above {:?}", last_fence, highest);
            }
            _ => return Err(TestCaseError::fail(format!("the first waiter got {last_vote:?}"))),
        }
        self.ask(&key, release(OTHER, Some(0))).await?;
        Ok(())
    }

    /// Calls the script of a request with some of its arguments changed.
    fn provoke(&mut self, key: &Arc<LockKey>, question: &Question, changes: &[Change], bundled: bool) -> Value {
        let second_name = Name::new(&format!("second-{}", self.names)).unwrap();
        let second_key = Arc::new(self.template.key(&second_name).unwrap());
        let (mut call, retention_position) = call(self.life, [key, &second_key], question, bundled);
        // Never change the keys: a caller that can name other keys can do anything. Never change the argument that says for
        // how long the node keeps a fence: without its fence, the node may grant a lower one.
        let keys = [key.text.as_bytes(), second_key.text.as_bytes()];
        call.change(changes, |number, word| retention_position == Some(number) || keys.contains(&word));
        // If an argument is missing, the server itself may refuse the call.
        self.raw.req_command(&call.command()).unwrap_or(Value::Nil)
    }
}

/// Returns the call that our clients send for a question, and the position of the argument that says for how long the node
/// keeps a fence, if the call has this argument.
fn call(life: Life, [key, other]: [&Arc<LockKey>; 2], question: &Question, bundled: bool) -> (Call, Option<usize>) {
    let mut commands = Commands::default();
    let request = match question {
        Question::Request(request) => request,
        Question::Search => {
            let span = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().span("");
            codec::search(ServerKind::Server, &Search { span, after: String::new() }, "0", &mut commands);
            return (Call::read(commands.as_bytes()), None);
        }
    };
    let message = |key: &Arc<LockKey>| Message { key: Arc::clone(key), request: Arc::new(request.clone()) };
    let mut messages = vec![message(key), message(other)];
    let is_bundle = bundled && Bundles::of(&messages) != Bundles::default();
    messages.truncate(if is_bundle { 2 } else { 1 });
    let (epoch_text, constants) = (codec::epoch_text(Some(life)), constants());
    codec::write_batch(&messages, &epoch_text, &constants, &mut commands);
    let asks_for_vote = matches!(request, Request::Acquire { .. } | Request::Renew { .. });
    (Call::read(commands.as_bytes()), asks_for_vote.then_some(if is_bundle { 4 } else { 6 }))
}

/// Returns the fence of a reply that is a grant.
fn granted_fence(answer: &Value) -> Option<i64> {
    let Value::Array(parts) = answer else { return None };
    match parts.as_slice() {
        // A single request: the code 1, another value, the fence. A bundle of two requests: the node's clock, then a value for
        // each request, which is a fence or an array like that of a single request.
        [Value::Int(1), _, Value::Int(fence), ..] | [Value::Int(MICROS_MIN..), Value::Int(fence @ MICROS_MIN..), _] => {
            Some(*fence)
        }
        [Value::Int(MICROS_MIN..), first @ Value::Array(_), _] => granted_fence(first),
        _ => None,
    }
}

fn start_hostile_test(runtime: &Runtime, server: &RedisServer) -> HostileTest {
    runtime.block_on(HostileTest::open(server))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn the_cases_cover_every_script() {
    let life = Life { epoch: Epoch(7), floor: Fence::new(1) };
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    let keys = ["a", "b"].map(|name| Arc::new(template.key(&Name::new(name).unwrap()).unwrap()));
    let node_and_roster_calls = node_commands::calls().chain(roster_commands::calls());
    let mut provoked: BTreeSet<String> = node_and_roster_calls.map(|call| call.sha().to_owned()).collect();
    for question in questions() {
        for bundled in [false, true] {
            provoked.insert(call(life, keys.each_ref(), &question, bundled).0.sha().to_owned());
        }
    }
    let all: BTreeSet<String> = ServerKind::Server.scripts().iter().map(|script| script.sha.clone()).collect();
    assert_eq!(provoked, all);
}

#[test]
fn changed_arguments_leave_every_record_intact() {
    let (runtime, server) = (runtime(), RedisServer::start());
    let test = std::cell::RefCell::new(start_hostile_test(&runtime, &server));
    let before = select(vec![
        Before::Free,
        Before::Held,
        Before::HeldAndWaitedFor,
        Before::Shared,
        Before::WaitedFor,
        Before::Own,
    ]);
    let case = (before, select(questions()), changes(), any::<bool>());
    let config = Config { failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&case, |(before, question, changes, bundled)| {
            runtime.block_on(test.borrow_mut().run(before, &question, &changes, bundled))
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn arguments_that_once_damaged_a_record_are_harmless() {
    let (runtime, server) = (runtime(), RedisServer::start());
    let mut test = start_hostile_test(&runtime, &server);
    let owner = OwnerId::from_bits(HOSTILE);
    let (exclusive, reentrant) = (Mode::EXCLUSIVE, Mode::Reentrant { owner });
    let slot = Mode::Slot { permits: 3, slot: 1 };
    let micros = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    for (mode, number, value) in [
        // Fences that were stored without a check, and could not be read later.
        (exclusive, 3, "nan".to_owned()),
        (exclusive, 3, format!("{:e}", micros + 1_000_000)),
        (exclusive, 3, format!("{:#x}", micros + 1_000_000)),
        (exclusive, 3, format!(" {}", micros + 1_000_000)),
        // A max clock skew that did not limit fences.
        (exclusive, 5, "nan".into()),
        // Entries that never expired, or could not be read.
        (reentrant, 4, "nan".into()),
        (reentrant, 4, "1e15".into()),
        (reentrant, 9, String::new()),
        (slot, 11, "1.5".into()),
        // Queue positions that could not be compared with others.
        (exclusive, 8, "0000000000000001-zzzzzzzzzzzzzzzz x 00000000000000000000000000000001".into()),
        (reentrant, 8, "0000000000000001-0000000000000001 x".into()),
    ] {
        for before in [Before::Free, Before::Held, Before::Shared, Before::WaitedFor] {
            let question = Question::Request(acquire(HOSTILE, Fence::new(1), mode, Some(5)));
            let changes = [(Argument::Number(number), Replacement::Value(value.clone().into_bytes()))];
            let done = runtime.block_on(test.run(before, &question, &changes, false));
            done.unwrap_or_else(|error| panic!("{value:?} as argument {number} of {mode:?}, {before:?}: {error}"));
        }
    }
    // Similar arguments of a bundled request, where they have other positions.
    for (number, value) in [
        (2, "nan".to_owned()),
        (2, "1e15".into()),
        (3, "nan".into()),
        (7, "s".into()),
        (7, "k 0123456789abcdef0123456789abcdef 3".into()),
        (8, "nan".into()),
        (8, format!("{:e}", micros + 1_000_000)),
        (8, format!(" {}", micros + 1_000_000)),
        (9, "0000000000000001-zzzzzzzzzzzzzzzz x 00000000000000000000000000000001".into()),
    ] {
        for before in [Before::Free, Before::Held, Before::Shared, Before::WaitedFor] {
            let question = Question::Request(acquire(HOSTILE, Fence::new(1), exclusive, Some(5)));
            let changes = [(Argument::Number(number), Replacement::Value(value.clone().into_bytes()))];
            let done = runtime.block_on(test.run(before, &question, &changes, true));
            done.unwrap_or_else(|error| panic!("{value:?} as argument {number} of a bundle, {before:?}: {error}"));
        }
    }
    // The hostile client describes itself with a text that is not UTF-8. Others can still read the state of the name.
    let unreadable = [(Argument::Number(7), Replacement::Value(b"7 \xff\xfe label".to_vec()))];
    let question = Question::Request(acquire(HOSTILE, Fence::new(1), exclusive, None));
    runtime.block_on(test.run(Before::Free, &question, &unreadable, false)).unwrap();
}

/// A bundled renewal only moves the expiry of the stored vote. If the new expiry were not in the future, the server
/// would delete the vote, although the reply looks like a grant.
#[test]
fn a_renewal_with_an_invalid_ttl_deletes_no_vote() {
    let (runtime, server) = (runtime(), RedisServer::start());
    let mut test = start_hostile_test(&runtime, &server);
    let key = Arc::new(test.template.key(&Name::new("name").unwrap()).unwrap());
    let second_key = Arc::new(test.template.key(&Name::new("second").unwrap()).unwrap());
    runtime.block_on(test.ask(&key, acquire(HOSTILE, Fence::new(1), Mode::EXCLUSIVE, None))).unwrap();
    // Another program has removed the expiry of the vote.
    server.command(&["PERSIST", &key.text]);
    let (attempt, fence, holder) = (LeaseId::from_bits(HOSTILE), Fence::new(1), "7 host label".into());
    let renew = Request::Renew { attempt, fence, ttl: ttl(), repair: true, holder, mode: Mode::EXCLUSIVE };
    for (number, value) in [(2, "0"), (2, "000"), (2, "-1"), (2, ""), (4, "0"), (4, "00"), (4, "-5"), (4, "x"), (4, "")]
    {
        let (mut call, _) = call(test.life, [&key, &second_key], &Question::Request(renew.clone()), true);
        assert_eq!(call.sha(), ServerKind::Server.sha(Script::RenewAll));
        call.change(&[(Argument::Number(number), Replacement::Value(value.into()))], |_, _| false);
        let answer: Value = test.raw.req_command(&call.command()).unwrap();
        assert_eq!(granted_fence(&answer), None, "{value:?} as argument {number}: {answer:?}");
        let kept = [key.text.clone(), companion_key(companion::FENCE, &key)].map(|key| server.cli(&["EXISTS", &key]));
        assert_eq!(kept, ["1", "1"], "after {value:?} as argument {number}");
    }
    let (call, _) = call(test.life, [&key, &second_key], &Question::Request(renew), true);
    let answer: Value = test.raw.req_command(&call.command()).unwrap();
    assert!(granted_fence(&answer).is_some(), "{answer:?}");
}

#[test]
fn a_foreign_value_that_looks_like_a_vote_makes_the_lock_count_as_held() {
    let (runtime, server) = (runtime(), RedisServer::start());
    let mut test = start_hostile_test(&runtime, &server);
    let lease_id = "0123456789abcdef".repeat(2);
    for (number, value) in
        ["r ab", "s", "k 12 zz", &format!("r {lease_id}"), &format!("k {lease_id} ff"), &format!("s {lease_id} 1")]
            .into_iter()
            .enumerate()
    {
        let key = Arc::new(test.template.key(&Name::new(&number.to_string()).unwrap()).unwrap());
        server.command(&["SET", &key.text, value, "PX", "60000"]);
        let modes = [
            Mode::EXCLUSIVE,
            Mode::Shared { owner: OwnerId::from_bits(1), reenters: false },
            Mode::Slot { permits: 3, slot: 0 },
        ];
        for mode in modes {
            let vote = runtime.block_on(test.ask(&key, acquire(OTHER, Fence::new(1), mode, Some(3))));
            assert!(matches!(vote, Ok(Vote::Refusal(Refusal::Held { .. }))), "{value:?}: {vote:?}");
        }
        let report = runtime.block_on(test.ask(&key, Request::Inspect));
        assert!(matches!(&report, Ok(Vote::Report(report)) if report.held.is_some()), "{value:?}: {report:?}");
    }
}
