//! Tests that need a Redis server.

mod roster;
mod together;

use std::collections::HashMap;
use std::sync::Arc;

use ::redis::pipe;
use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, OwnerId};
use quorlock_core::node::{Epoch, NodeCommand};
use quorlock_core::request::{Parting, Request, Ticket, WAITERS_MAX, Waiter};
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{GrantedSlot, Handoff, QueuePosition, Refusal, Vote};
use quorlock_testkit::RedisServer;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::scripts::{companion, companion_key, hint_channel};
use super::*;
use crate::node::{Life, Message, Reply, RequestReply};

const CHANNEL: Channel = Channel(0xc);

fn constants() -> Constants {
    Constants { cluster: "c".into(), nodes: 1, max_ttl_millis: 60_000, max_skew_micros: 10_000_000 }
}

/// A client whose server may vote, and the hints that the client received.
struct TestClient {
    session: RequestReply,
    life: Life,
    hints: UnboundedReceiver<(Ticket, Option<Handoff>)>,
}

impl TestClient {
    async fn open(url: &str, channel: Channel) -> Self {
        let node = RedisNode::at(url, constants());
        let (mut session, hints) = RequestReply::listening(&node, channel).await.unwrap();
        let mut standing = session.node_command(NodeCommand::Look).await.unwrap();
        if standing.life.is_none() {
            let (identity, fresh) = (session.identity().clone(), Epoch(7));
            standing =
                session.node_command(NodeCommand::Init { identity, fresh, constants: constants() }).await.unwrap();
        }
        let life = standing.life.unwrap();
        let life = Life { epoch: life.epoch.unwrap(), floor: life.floor.unwrap() };
        Self { session, life, hints }
    }

    async fn ask(&mut self, request: Request) -> Vote {
        let message = Message { key: key(), request: Arc::new(request) };
        match self.session.send(Some(self.life), vec![message]).await.unwrap().remove(0) {
            Reply::Voted { vote, .. } => vote,
            Reply::Failed(why) | Reply::Moved(why) => panic!("{why}"),
        }
    }

    /// Asks another question, and returns a hint that arrived before the answer to that question.
    async fn next_hint(&mut self) -> Option<(Ticket, Option<Handoff>)> {
        self.session.node_command(NodeCommand::Look).await.unwrap();
        self.hints.try_recv().ok()
    }

    async fn next_ticket(&mut self) -> Option<Ticket> {
        self.next_hint().await.map(|(ticket, _)| ticket)
    }
}

fn acquire(attempt: u128, mode: Mode, ticket: Option<u64>) -> Request {
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let (attempt, proposal, holder) = (LeaseId::from_bits(attempt), Fence::default(), "7 host label".into());
    Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: ticket.map(waiter) }
}

fn release(attempt: u128, parting: Option<Parting>) -> Request {
    Request::Release { attempt: LeaseId::from_bits(attempt), tombstone: None, parting }
}

fn waiter(at: u64) -> Waiter {
    Waiter { ticket: Ticket { at, id: at }, channel: CHANNEL, shared: false }
}

fn is_grant(vote: &Vote) -> bool {
    matches!(vote, Vote::Grant { .. })
}

fn queue_of(vote: Vote) -> QueuePosition {
    match vote {
        Vote::Refusal(Refusal::Held { queue, .. } | Refusal::Behind { queue, .. }) => queue,
        vote => panic!("{vote:?}"),
    }
}

/// Returns how often each command was called, without the commands that measure it.
fn command_counts(server: &RedisServer) -> HashMap<String, u64> {
    let info = server.command(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let all = info.as_str().unwrap().lines().filter_map(calls);
    all.filter(|(name, _)| name != "info" && !name.starts_with("config")).collect()
}

/// Returns the commands that were called since `before`, and how often.
fn increase(before: &HashMap<String, u64>, after: HashMap<String, u64>) -> Vec<(String, u64)> {
    let grown = after.into_iter().map(|(name, calls)| {
        let more = calls - before.get(&name).copied().unwrap_or(0);
        (name, more)
    });
    let mut grown: Vec<_> = grown.filter(|(_, more)| *more > 0).collect();
    grown.sort();
    grown
}

#[tokio::test]
async fn an_uncontested_acquire_and_its_release_take_few_commands() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let calls = |words: &[(&str, u64)]| words.iter().map(|(name, count)| ((*name).into(), *count)).collect::<Vec<_>>();

    let before = command_counts(&server);
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, Some(5))).await));
    let used = increase(&before, command_counts(&server));
    assert_eq!(used, calls(&[("evalsha", 1), ("mget", 1), ("set", 2), ("time", 1), ("zrange", 1)]));

    let before = command_counts(&server);
    assert!(is_grant(&client.ask(release(1, None)).await));
    let used = increase(&before, command_counts(&server));
    assert_eq!(used, calls(&[("del", 1), ("evalsha", 1), ("get", 1), ("zrange", 1)]));
}

#[tokio::test]
async fn a_handoff_takes_few_commands() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let calls = |words: &[(&str, u64)]| words.iter().map(|(name, count)| ((*name).into(), *count)).collect::<Vec<_>>();
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    assert_eq!(queue_of(client.ask(acquire(9, Mode::EXCLUSIVE, Some(9))).await).position, Some(1));

    assert_eq!(queue_of(client.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).position, Some(1));

    let before = command_counts(&server);
    assert!(is_grant(&client.ask(release(1, None)).await));
    let expected = [("del", 1), ("evalsha", 1), ("get", 1), ("hmget", 1), ("mget", 1), ("publish", 1)];
    // Redis before 7 counts subcommands together.
    let numsub = if command_counts(&server).contains_key("pubsub") { "pubsub" } else { "pubsub|numsub" };
    let expected = [&expected[..], &[(numsub, 1), ("set", 2), ("time", 1), ("zrange", 1), ("zrem", 1)]].concat();
    assert_eq!(increase(&before, command_counts(&server)), calls(&expected));
    let Some((ticket, Some(handoff))) = client.next_hint().await else { panic!("the vote was not handed over") };
    assert_eq!((ticket, handoff.attempt), (waiter(5).ticket, Digest::of(LeaseId::from_bits(2))));
    let vote = client.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await;
    assert!(matches!(vote, Vote::Grant { fence, .. } if fence == handoff.fence), "{vote:?}: the vote was handed over");
}

#[tokio::test]
async fn a_vote_is_not_handed_over_to_a_waiter_without_a_subscription() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    let mut unsubscribed = acquire(2, Mode::EXCLUSIVE, Some(5));
    if let Request::Acquire { waiter: Some(waiter), .. } = &mut unsubscribed {
        waiter.channel = Channel(0xdead);
    }
    assert_eq!(queue_of(client.ask(unsubscribed).await).position, Some(1));
    assert!(is_grant(&client.ask(release(1, None)).await));
    assert_eq!(server.keys("quorlock:*"), Vec::<String>::new(), "the release must leave no vote");
    assert!(is_grant(&client.ask(acquire(3, Mode::EXCLUSIVE, Some(3))).await));
}

#[tokio::test]
async fn a_pattern_subscription_is_not_the_subscription_of_a_waiter() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let mut raw = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut monitor = raw.as_pubsub();
    monitor.psubscribe("*").unwrap();
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    let mut unsubscribed = acquire(2, Mode::EXCLUSIVE, Some(5));
    if let Request::Acquire { waiter: Some(waiter), .. } = &mut unsubscribed {
        waiter.channel = Channel(0xdead);
    }
    assert_eq!(queue_of(client.ask(unsubscribed).await).position, Some(1));
    assert!(is_grant(&client.ask(release(1, None)).await));
    assert_eq!(server.keys("quorlock:*"), Vec::<String>::new(), "a waiter without a subscription got the vote");
    let hint = monitor.get_message().unwrap().get_payload::<String>().unwrap();
    assert!(!hint.contains(' '), "{hint}: the hint must be a ticket without a vote");
}

#[tokio::test]
async fn a_user_that_may_not_use_pubsub_gives_hints_but_no_handoffs() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["ACL", "SETUSER", "shy", "on", ">pass", "~*", "&*", "+@all", "-pubsub"]), "OK");
    let mut client = TestClient::open(&format!("redis://shy:pass@{}", server.addr()), CHANNEL).await;
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    assert_eq!(queue_of(client.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).position, Some(1));
    assert!(is_grant(&client.ask(release(1, None)).await));
    assert_eq!(client.next_hint().await, Some((waiter(5).ticket, None)));
    assert!(is_grant(&client.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await));
}

#[tokio::test]
async fn a_reader_enters_and_leaves_without_reading_all_entries() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let reader_mode = |owner| Mode::Shared { owner: OwnerId::from_bits(owner), reenters: false };
    let before = command_counts(&server);
    for reader in 1..10 {
        assert!(is_grant(&client.ask(acquire(reader, reader_mode(reader), None)).await));
    }
    let short = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
    let Request::Acquire { attempt, proposal, holder, mode, waiter, .. } = acquire(10, reader_mode(10), None) else {
        unreachable!("acquire returns Request::Acquire")
    };
    let short_read = Request::Acquire { attempt, proposal, ttl: short, holder, mode, waiter };
    assert!(is_grant(&client.ask(short_read).await) && is_grant(&client.ask(release(10, None)).await));
    assert!(increase(&before, command_counts(&server)).iter().all(|(name, _)| name != "hgetall"));
}

#[tokio::test]
async fn entries_are_void_after_another_vote_has_replaced_their_vote() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let slot = Mode::Slot { permits: 2, slot: 0 };
    for attempt in 1..3 {
        assert!(is_grant(&client.ask(acquire(attempt, slot, None)).await));
    }
    assert_eq!(queue_of(client.ask(acquire(3, slot, None)).await), QueuePosition::default());

    let other = format!("k {} 2", LeaseId::from_bits(9).reveal());
    assert_eq!(server.cli(&["SET", &key().text, &other, "PX", "90000"]), "OK");
    assert_eq!(client.ask(release(1, None)).await, Vote::Refusal(Refusal::Absent));
    let Vote::Report(report) = client.ask(Request::Inspect).await else { panic!("an inspection returns a report") };
    assert_eq!(report.held.map(|held| held.holds), Some(1), "the lock has one holder, whose entry is not known");
    let granted = Some(GrantedSlot { index: 0, free: vec![1] });
    let vote = client.ask(acquire(3, slot, None)).await;
    assert!(matches!(&vote, Vote::Grant { slot, .. } if *slot == granted), "{vote:?}");
    // The release of the last entry deletes the vote, although the vote would have lasted longer.
    assert!(is_grant(&client.ask(release(3, None)).await));
    assert!(is_grant(&client.ask(acquire(4, Mode::EXCLUSIVE, None)).await));
}

#[tokio::test]
async fn a_fence_survives_damage_to_the_rest_of_its_record() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let last = Fence::new(1 << 52);
    for rest in ["", " ", " unreadable", " 0 1 7 host label"] {
        assert_eq!(server.cli(&["SET", &companion_key(companion::FENCE, &key()), &format!("{last}{rest}")]), "OK");
        let Vote::Report(report) = client.ask(Request::Inspect).await else { panic!("an inspection returns a report") };
        assert_eq!(report.fence, last, "{rest:?}");
        for mode in [Mode::EXCLUSIVE, Mode::Shared { owner: OwnerId::from_bits(1), reenters: false }] {
            let vote = client.ask(acquire(1, mode, None)).await;
            assert!(matches!(vote, Vote::Grant { fence, .. } if fence > last), "{vote:?} after {rest:?}");
            assert!(is_grant(&client.ask(release(1, None)).await));
        }
    }
}

#[tokio::test]
async fn a_full_queue_keeps_its_waiters_and_refuses_new_waiters() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, None)).await));
    assert_eq!(queue_of(client.ask(acquire(2, Mode::EXCLUSIVE, Some(9))).await).position, Some(1));

    let redis_client = ::redis::Client::open(server.url()).unwrap();
    let mut raw = redis_client.get_connection().unwrap();
    let mut full_queue = pipe();
    for id in 1..WAITERS_MAX {
        let member = format!("{id:016x} x {}", Channel(0).digits());
        full_queue.cmd("ZADD").arg(companion_key(companion::QUEUE, &key())).arg(8).arg(&member).ignore();
        full_queue.cmd("ZADD").arg(companion_key(companion::KEPT, &key())).arg("9000000000000").arg(&member).ignore();
    }
    full_queue.exec(&mut raw).unwrap();

    let queue = QueuePosition { position: Some(WAITERS_MAX), waiting: WAITERS_MAX, lower: true };
    assert_eq!(queue_of(client.ask(acquire(2, Mode::EXCLUSIVE, Some(9))).await), queue);
    assert_eq!(client.ask(acquire(3, Mode::EXCLUSIVE, Some(7))).await, Vote::Refusal(Refusal::QueueFull));
    let reader = Mode::Shared { owner: OwnerId::from_bits(1), reenters: false };
    assert_eq!(client.ask(acquire(4, reader, Some(7))).await, Vote::Refusal(Refusal::QueueFull));
    assert!(is_grant(&client.ask(release(1, None)).await));
    assert_eq!(client.ask(acquire(3, Mode::EXCLUSIVE, Some(9_999))).await, Vote::Refusal(Refusal::QueueFull));
    // A waiter with a lower ticket than all others needs no queue position.
    assert!(is_grant(&client.ask(acquire(3, Mode::EXCLUSIVE, Some(7))).await));
}

#[tokio::test]
async fn a_user_that_may_not_subscribe_or_publish_votes_without_hints() {
    let server = RedisServer::start();
    let mut listener = TestClient::open(&server.url(), CHANNEL).await;
    let allowed = ["~quorlock*", "resetchannels", "+@all", "-@pubsub"];
    for (forbidden, name) in [(&allowed[..], "no-commands"), (&allowed[..3], "no-channels")] {
        let user = ["ACL", "SETUSER", name, "reset", "on", ">pass"];
        assert_eq!(server.cli(&[&user, forbidden].concat()), "OK");
        let mut client = TestClient::open(&format!("redis://{name}:pass@{}", server.addr()), Channel(0xd)).await;
        assert!(is_grant(&client.ask(acquire(1, Mode::EXCLUSIVE, None)).await));
        assert_eq!(queue_of(client.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).position, Some(1));
        assert!(is_grant(&client.ask(release(1, None)).await), "{name} may not publish, but its release must succeed");
        assert_eq!(listener.next_ticket().await, None);
        // A release by a client that may publish sends the hint.
        assert!(is_grant(&listener.ask(acquire(3, Mode::EXCLUSIVE, Some(4))).await));
        assert!(is_grant(&listener.ask(release(3, None)).await));
        assert_eq!(listener.next_ticket().await, Some(waiter(5).ticket));
        let vote = client.ask(release(2, Some(Parting::Leave(waiter(5))))).await;
        assert!(is_grant(&vote), "the waiter does not have the vote that was handed over: {vote:?}");
    }
}

#[tokio::test]
async fn a_session_is_subscribed_to_hints_when_it_opens() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let ticket = waiter(5).ticket.to_string();
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(CHANNEL), &ticket]), "1");
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(CHANNEL), "what?"]), "1");
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(Channel(0xd)), &ticket]), "0");
    assert_eq!((client.next_ticket().await, client.next_ticket().await), (Some(waiter(5).ticket), None));
    let unsubscribed = TestClient::open(&server.url(), Channel(0)).await;
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(Channel(0)), &ticket]), "0");
    drop(unsubscribed);
}
