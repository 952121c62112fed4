//! What only a server can show.

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

const EARS: Channel = Channel(0xc);

fn constants() -> Constants {
    Constants { cluster: "c".into(), nodes: 1, max_ttl_millis: 60_000, max_skew_micros: 10_000_000 }
}

/// A session that has let its server vote, and what it hears.
struct Guest {
    session: RequestReply,
    life: Life,
    heard: UnboundedReceiver<(Ticket, Option<Handoff>)>,
}

impl Guest {
    async fn of(url: &str, channel: Channel) -> Self {
        let node = RedisNode::at(url, constants());
        let (mut session, heard) = RequestReply::listening(&node, channel).await.unwrap();
        let mut standing = session.node_command(NodeCommand::Look).await.unwrap();
        if standing.life.is_none() {
            let (identity, fresh) = (session.identity().clone(), Epoch(7));
            standing =
                session.node_command(NodeCommand::Init { identity, fresh, constants: constants() }).await.unwrap();
        }
        let life = standing.life.unwrap();
        let life = Life { epoch: life.epoch.unwrap(), floor: life.floor.unwrap() };
        Self { session, life, heard }
    }

    async fn ask(&mut self, request: Request) -> Vote {
        let message = Message { key: key(), request: Arc::new(request) };
        match self.session.send(Some(self.life), vec![message]).await.unwrap().remove(0) {
            Reply::Voted { vote, .. } => vote,
            Reply::Failed(why) | Reply::Moved(why) => panic!("{why}"),
        }
    }

    /// What was pushed before the answer to one more question.
    async fn heard(&mut self) -> Option<(Ticket, Option<Handoff>)> {
        self.session.node_command(NodeCommand::Look).await.unwrap();
        self.heard.try_recv().ok()
    }

    async fn hint(&mut self) -> Option<Ticket> {
        self.heard().await.map(|(ticket, _)| ticket)
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
    Waiter { ticket: Ticket { at, id: at }, channel: EARS, shared: false }
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

/// How often each command was called, without those that the server is asked about it.
fn commands(server: &RedisServer) -> HashMap<String, u64> {
    let info = server.command(&["INFO", "commandstats"]);
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let all = info.as_str().unwrap().lines().filter_map(calls);
    all.filter(|(name, _)| name != "info" && !name.starts_with("config")).collect()
}

fn more(before: &HashMap<String, u64>, after: HashMap<String, u64>) -> Vec<(String, u64)> {
    let grown = after.into_iter().map(|(name, calls)| {
        let more = calls - before.get(&name).copied().unwrap_or(0);
        (name, more)
    });
    let mut grown: Vec<_> = grown.filter(|(_, more)| *more > 0).collect();
    grown.sort();
    grown
}

#[tokio::test]
async fn a_vote_that_nobody_contests_takes_few_commands() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let own = |words: &[(&str, u64)]| words.iter().map(|(name, calls)| ((*name).into(), *calls)).collect::<Vec<_>>();

    let before = commands(&server);
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, Some(5))).await));
    let taken = more(&before, commands(&server));
    assert_eq!(taken, own(&[("evalsha", 1), ("mget", 1), ("set", 2), ("time", 1), ("zrange", 1)]));

    let before = commands(&server);
    assert!(is_grant(&guest.ask(release(1, None)).await));
    let taken = more(&before, commands(&server));
    assert_eq!(taken, own(&[("del", 1), ("evalsha", 1), ("get", 1), ("zrange", 1)]));
}

#[tokio::test]
async fn a_handoff_takes_few_commands() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let own = |words: &[(&str, u64)]| words.iter().map(|(name, calls)| ((*name).into(), *calls)).collect::<Vec<_>>();
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    assert_eq!(queue_of(guest.ask(acquire(9, Mode::EXCLUSIVE, Some(9))).await).place, Some(1));

    assert_eq!(queue_of(guest.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).place, Some(1));

    let before = commands(&server);
    assert!(is_grant(&guest.ask(release(1, None)).await));
    let told = [("del", 1), ("evalsha", 1), ("get", 1), ("hmget", 1), ("mget", 1), ("publish", 1)];
    // Redis before 7 counts subcommands together.
    let listens = if commands(&server).contains_key("pubsub") { "pubsub" } else { "pubsub|numsub" };
    let told = [&told[..], &[(listens, 1), ("set", 2), ("time", 1), ("zrange", 1), ("zrem", 1)]].concat();
    assert_eq!(more(&before, commands(&server)), own(&told));
    let Some((ticket, Some(handoff))) = guest.heard().await else { panic!("nothing was handed on") };
    assert_eq!((ticket, handoff.attempt), (waiter(5).ticket, Digest::of(LeaseId::from_bits(2))));
    let vote = guest.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await;
    assert!(matches!(vote, Vote::Grant { fence, .. } if fence == handoff.fence), "{vote:?}: it has it already");
}

#[tokio::test]
async fn nothing_is_handed_on_to_one_who_does_not_hear_of_it() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    let mut gone = acquire(2, Mode::EXCLUSIVE, Some(5));
    if let Request::Acquire { waiter: Some(waiter), .. } = &mut gone {
        waiter.channel = Channel(0xdead);
    }
    assert_eq!(queue_of(guest.ask(gone).await).place, Some(1));
    assert!(is_grant(&guest.ask(release(1, None)).await));
    assert_eq!(server.keys("quorlock:*"), Vec::<String>::new(), "no vote is left behind");
    assert!(is_grant(&guest.ask(acquire(3, Mode::EXCLUSIVE, Some(3))).await));
}

#[tokio::test]
async fn a_monitor_does_not_listen_for_a_waiter() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let mut raw = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut monitor = raw.as_pubsub();
    monitor.psubscribe("*").unwrap();
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    let mut gone = acquire(2, Mode::EXCLUSIVE, Some(5));
    if let Request::Acquire { waiter: Some(waiter), .. } = &mut gone {
        waiter.channel = Channel(0xdead);
    }
    assert_eq!(queue_of(guest.ask(gone).await).place, Some(1));
    assert!(is_grant(&guest.ask(release(1, None)).await));
    assert_eq!(server.keys("quorlock:*"), Vec::<String>::new(), "a dead waiter has the vote");
    let told = monitor.get_message().unwrap().get_payload::<String>().unwrap();
    assert!(!told.contains(' '), "{told}: a hint is a ticket, without a vote");
}

#[tokio::test]
async fn a_server_that_does_not_tell_who_listens_gives_hints_and_hands_nothing_over() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["ACL", "SETUSER", "shy", "on", ">pass", "~*", "&*", "+@all", "-pubsub"]), "OK");
    let mut guest = Guest::of(&format!("redis://shy:pass@{}", server.addr()), EARS).await;
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, Some(4))).await));
    assert_eq!(queue_of(guest.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).place, Some(1));
    assert!(is_grant(&guest.ask(release(1, None)).await));
    assert_eq!(guest.heard().await, Some((waiter(5).ticket, None)));
    assert!(is_grant(&guest.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await));
}

#[tokio::test]
async fn readers_come_and_go_without_a_look_at_all_the_others() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let reads = |owner| Mode::Shared { owner: OwnerId::from_bits(owner), reenters: false };
    let before = commands(&server);
    for reader in 1..10 {
        assert!(is_grant(&guest.ask(acquire(reader, reads(reader), None)).await));
    }
    let short = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
    let Request::Acquire { attempt, proposal, holder, mode, waiter, .. } = acquire(10, reads(10), None) else {
        unreachable!("an acquire is one")
    };
    let hasty = Request::Acquire { attempt, proposal, ttl: short, holder, mode, waiter };
    assert!(is_grant(&guest.ask(hasty).await) && is_grant(&guest.ask(release(10, None)).await));
    assert!(more(&before, commands(&server)).iter().all(|(name, _)| name != "hgetall"));
}

#[tokio::test]
async fn entries_are_void_once_another_vote_stands() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let slot = Mode::Slot { permits: 2, slot: 0 };
    for attempt in 1..3 {
        assert!(is_grant(&guest.ask(acquire(attempt, slot, None)).await));
    }
    assert_eq!(queue_of(guest.ask(acquire(3, slot, None)).await), QueuePosition::default());

    let other = format!("k {} 2", LeaseId::from_bits(9).reveal());
    assert_eq!(server.cli(&["SET", &key().text, &other, "PX", "90000"]), "OK");
    assert_eq!(guest.ask(release(1, None)).await, Vote::Refusal(Refusal::Absent));
    let Vote::Report(report) = guest.ask(Request::Inspect).await else { panic!("an inspection reports") };
    assert_eq!(report.held.map(|held| held.holds), Some(1), "somebody holds it, but nobody that is known");
    let granted = Some(GrantedSlot { index: 0, free: vec![1] });
    let vote = guest.ask(acquire(3, slot, None)).await;
    assert!(matches!(&vote, Vote::Grant { slot, .. } if *slot == granted), "{vote:?}");
    // The last to leave takes the vote along, although that would have stood for longer.
    assert!(is_grant(&guest.ask(release(3, None)).await));
    assert!(is_grant(&guest.ask(acquire(4, Mode::EXCLUSIVE, None)).await));
}

#[tokio::test]
async fn a_fence_is_not_forgotten_with_the_rest_of_its_note() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let last = Fence::new(1 << 52);
    for rest in ["", " ", " what", " 0 1 7 host label"] {
        assert_eq!(server.cli(&["SET", &companion_key(companion::FENCE, &key()), &format!("{last}{rest}")]), "OK");
        let Vote::Report(report) = guest.ask(Request::Inspect).await else { panic!("an inspection reports") };
        assert_eq!(report.fence, last, "{rest:?}");
        for mode in [Mode::EXCLUSIVE, Mode::Shared { owner: OwnerId::from_bits(1), reenters: false }] {
            let vote = guest.ask(acquire(1, mode, None)).await;
            assert!(matches!(vote, Vote::Grant { fence, .. } if fence > last), "{vote:?} after {rest:?}");
            assert!(is_grant(&guest.ask(release(1, None)).await));
        }
    }
}

#[tokio::test]
async fn a_queue_that_is_full_keeps_those_it_has_and_takes_nobody_new() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, None)).await));
    assert_eq!(queue_of(guest.ask(acquire(2, Mode::EXCLUSIVE, Some(9))).await).place, Some(1));

    let client = ::redis::Client::open(server.url()).unwrap();
    let mut raw = client.get_connection().unwrap();
    let mut crowd = pipe();
    for id in 1..WAITERS_MAX {
        let member = format!("{id:016x} x {}", Channel(0).digits());
        crowd.cmd("ZADD").arg(companion_key(companion::QUEUE, &key())).arg(8).arg(&member).ignore();
        crowd.cmd("ZADD").arg(companion_key(companion::KEPT, &key())).arg("9000000000000").arg(&member).ignore();
    }
    crowd.exec(&mut raw).unwrap();

    let queue = QueuePosition { place: Some(WAITERS_MAX), waiting: WAITERS_MAX, lower: true };
    assert_eq!(queue_of(guest.ask(acquire(2, Mode::EXCLUSIVE, Some(9))).await), queue);
    assert_eq!(guest.ask(acquire(3, Mode::EXCLUSIVE, Some(7))).await, Vote::Refusal(Refusal::QueueFull));
    let reader = Mode::Shared { owner: OwnerId::from_bits(1), reenters: false };
    assert_eq!(guest.ask(acquire(4, reader, Some(7))).await, Vote::Refusal(Refusal::QueueFull));
    assert!(is_grant(&guest.ask(release(1, None)).await));
    assert_eq!(guest.ask(acquire(3, Mode::EXCLUSIVE, Some(9_999))).await, Vote::Refusal(Refusal::QueueFull));
    // A waiter before all of them needs no place.
    assert!(is_grant(&guest.ask(acquire(3, Mode::EXCLUSIVE, Some(7))).await));
}

#[tokio::test]
async fn a_server_that_lets_nobody_subscribe_or_publish_is_a_node_without_hints() {
    let server = RedisServer::start();
    let mut listener = Guest::of(&server.url(), EARS).await;
    let allowed = ["~quorlock*", "resetchannels", "+@all", "-@pubsub"];
    for (forbidden, name) in [(&allowed[..], "no-commands"), (&allowed[..3], "no-channels")] {
        let user = ["ACL", "SETUSER", name, "reset", "on", ">pass"];
        assert_eq!(server.cli(&[&user, forbidden].concat()), "OK");
        let mut guest = Guest::of(&format!("redis://{name}:pass@{}", server.addr()), Channel(0xd)).await;
        assert!(is_grant(&guest.ask(acquire(1, Mode::EXCLUSIVE, None)).await));
        assert_eq!(queue_of(guest.ask(acquire(2, Mode::EXCLUSIVE, Some(5))).await).place, Some(1));
        assert!(is_grant(&guest.ask(release(1, None)).await), "{name} cannot publish, and releases all the same");
        assert_eq!(listener.hint().await, None);
        // With one who may, the same is heard.
        assert!(is_grant(&listener.ask(acquire(3, Mode::EXCLUSIVE, Some(4))).await));
        assert!(is_grant(&listener.ask(release(3, None)).await));
        assert_eq!(listener.hint().await, Some(waiter(5).ticket));
        let vote = guest.ask(release(2, Some(Parting::Leave(waiter(5))))).await;
        assert!(is_grant(&vote), "it was handed on: {vote:?}");
    }
}

#[tokio::test]
async fn a_session_listens_before_it_is_there() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let ticket = waiter(5).ticket.to_string();
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(EARS), &ticket]), "1");
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(EARS), "what?"]), "1");
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(Channel(0xd)), &ticket]), "0");
    assert_eq!((guest.hint().await, guest.hint().await), (Some(waiter(5).ticket), None));
    let deaf = Guest::of(&server.url(), Channel(0)).await;
    assert_eq!(server.cli(&["PUBLISH", &hint_channel(Channel(0)), &ticket]), "0");
    drop(deaf);
}
