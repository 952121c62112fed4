//! Requests that go together: what is one name's, and what is everyone's.

use super::*;
use crate::node::redis::codec::Bundles;
use crate::node::redis::scripts::tombstone_key;

impl Guest {
    /// The same request about several names, in one batch.
    async fn ask_all(&mut self, keys: &[Arc<LockKey>], request: Request) -> Result<Vec<Reply>, Trouble> {
        let message = |key| Message { key: Arc::clone(key), request: Arc::new(request.clone()) };
        let messages: Vec<Message> = keys.iter().map(message).collect();
        // Plain acquires are the server's own command, one for each.
        if !matches!(request, Request::PlainAcquire { .. }) {
            assert_eq!(Bundles::of(&messages).counts().into_iter().max(), Some(keys.len()), "they do not go together");
        }
        self.session.send(Some(self.life), messages).await
    }
}

fn renew(attempt: u128) -> Request {
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let (attempt, fence, holder) = (LeaseId::from_bits(attempt), Fence::default(), "7 host label".into());
    Request::Renew { attempt, fence, ttl, repair: true, holder, mode: Mode::EXCLUSIVE }
}

fn keys(names: [&str; 3]) -> [Arc<LockKey>; 3] {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    names.map(|name| Arc::new(template.key(&Name::new(name).unwrap()).unwrap()))
}

/// What was granted to each.
fn fences(replies: &[Reply]) -> Vec<Fence> {
    let fence = |reply: &Reply| match reply {
        Reply::Voted { vote: Vote::Grant { fence, .. }, .. } => *fence,
        reply => panic!("{reply:?}"),
    };
    replies.iter().map(fence).collect()
}

fn is_failure(reply: &Reply, says: &str) -> bool {
    matches!(reply, Reply::Failed(why) if why.contains(says))
}

#[tokio::test]
async fn votes_that_go_together_share_every_look() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let own = |words: &[(&str, u64)]| words.iter().map(|(name, calls)| ((*name).into(), *calls)).collect::<Vec<_>>();
    let keys = keys(["a", "b", "c"]);

    let before = commands(&server);
    let replies = guest.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, Some(5))).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let taken = more(&before, commands(&server));
    assert_eq!(taken, own(&[("evalsha", 1), ("exists", 1), ("mget", 1), ("set", 6), ("time", 1)]));

    // The first renewal of one who has waited takes its ticket off the note; from then on only the ends move.
    guest.ask_all(&keys, renew(1)).await.unwrap();
    let before = commands(&server);
    let renewed = guest.ask_all(&keys, renew(1)).await.unwrap();
    assert_eq!(fences(&renewed), fences(&replies));
    let taken = more(&before, commands(&server));
    assert_eq!(taken, own(&[("evalsha", 1), ("mget", 1), ("pexpire", 6), ("pttl", 3), ("time", 1)]));

    let before = commands(&server);
    let replies = guest.ask_all(&keys, release(1, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    assert_eq!(more(&before, commands(&server)), own(&[("del", 1), ("evalsha", 1), ("exists", 1), ("mget", 1)]));
}

#[tokio::test]
async fn what_goes_wrong_with_one_name_is_no_harm_to_those_beside_it() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let keys = keys(["a", "b", "c"]);
    let middle = &keys[1];
    // Another program's key where the vote would be: held. Other data where the queue would be: an error.
    for key in [middle.text.clone(), companion_key(companion::QUEUE, middle)] {
        let fits = |reply: &Reply| {
            if key == middle.text { is_other_program(reply) } else { is_failure(reply, "kind of value") }
        };
        server.command(&["LPUSH", &key, "other data"]);
        let replies = guest.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
        assert!(replies[0].is_grant() && fits(&replies[1]) && replies[2].is_grant(), "{replies:?}");
        // A renewal looks at no queue.
        let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
        assert!(replies[0].is_grant() && replies[2].is_grant(), "{replies:?}");
        assert!(if key == middle.text { fits(&replies[1]) } else { replies[1].is_grant() }, "{replies:?}");
        let replies = guest.ask_all(&keys, release(1, None)).await.unwrap();
        assert!(replies[0].is_grant() && !replies[1].is_grant() && replies[2].is_grant(), "{replies:?}");
        server.command(&["DEL", &key, &middle.text]);
    }
    let replies = guest.ask_all(&keys, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
}

fn is_other_program(reply: &Reply) -> bool {
    let Reply::Voted { vote: Vote::Refusal(Refusal::Held { holder: Some(holder), .. }), .. } = reply else {
        return false;
    };
    holder.to_string() == "another program (key type list)"
}

/// A refused name does not affect the other names of its bundle.
#[tokio::test]
async fn a_name_that_is_forbidden_is_no_harm_to_those_beside_it() {
    let server = RedisServer::start();
    let mut owner = Guest::of(&server.url(), EARS).await;
    let keys = keys(["a", "b", "c"]);
    let (attempt, ttl) = (LeaseId::from_bits(1), Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap());
    let rest = "~quorlock~*";
    let no_companions = [
        "~quorlock:*",
        "~quorlock~epoch",
        "~quorlock~meta",
        "~quorlock~done:*",
        "~quorlock~*:quorlock:a",
        "~quorlock~*:quorlock:c",
    ];
    let read_only = ["~quorlock:a", "~quorlock:c", "%R~quorlock:b", rest];
    for (name, patterns) in [
        ("no-vote", &["~quorlock:a", "~quorlock:c", rest][..]),
        ("no-companions", &no_companions),
        ("read-only", &read_only),
    ] {
        let user = ["ACL", "SETUSER", name, "reset", "on", ">pass", "&*", "+@all"];
        if server.cli(&[&user, patterns].concat()) != "OK" {
            // Redis before 7 cannot say who may only read.
            assert_eq!(name, "read-only");
            continue;
        }
        let mut guest = Guest::of(&format!("redis://{name}:pass@{}", server.addr()), Channel(0xd)).await;
        let requests = [
            (acquire(1, Mode::EXCLUSIVE, None), release(1, None)),
            (Request::PlainAcquire { attempt, ttl }, Request::PlainRelease { attempt }),
        ];
        for (asked, given_back) in requests {
            // Plain ones have no companions.
            if asked.is_plain() && name == "no-companions" {
                continue;
            }
            let replies = guest.ask_all(&keys, asked).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            // Something of that attempt that only its owner could have done.
            assert_eq!(server.cli(&["SET", &keys[1].text, &attempt.reveal()]), "OK");
            let renewed = if given_back.is_plain() { Request::PlainExtend { attempt, ttl } } else { renew(1) };
            let replies = guest.ask_all(&keys, renewed).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            let replies = guest.ask_all(&keys, given_back).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            server.command(&["DEL", &keys[1].text]);
            let replies = owner.ask_all(&keys, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
            assert!(replies.iter().all(Reply::is_grant), "{name}: something was left: {replies:?}");
            let replies = owner.ask_all(&keys, release(2, None)).await.unwrap();
            assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_was_demoted_ends_the_connection_for_all_that_go_together() {
    let server = RedisServer::start();
    let url = server.url();
    let mut guests = [Guest::of(&url, EARS).await, Guest::of(&url, EARS).await, Guest::of(&url, EARS).await];
    let keys = keys(["a", "b", "c"]);
    let replies = guests[0].ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let others = self::keys(["d", "e", "f"]);
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let asked = [(others, acquire(2, Mode::EXCLUSIVE, None)), (keys.clone(), renew(1)), (keys, release(1, None))];
    for (guest, (keys, request)) in guests.iter_mut().zip(asked) {
        let ended = guest.ask_all(&keys, request).await;
        assert!(matches!(&ended, Err(Trouble::Broken(why)) if why.contains("READONLY")), "{ended:?}");
    }
}

#[tokio::test]
async fn a_server_without_room_fails_all_that_go_together() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let keys = keys(["a", "b", "c"]);
    let replies = guest.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let others = self::keys(["d", "e", "f"]);
    let replies = guest.ask_all(&others, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(|reply| is_failure(reply, "OOM")), "{replies:?}");
    // Who has it is told all the same, to those beside whom there are others.
    let [one, _, other] = &others;
    let mixed = [Arc::clone(one), Arc::clone(&keys[0]), Arc::clone(other)];
    let replies = guest.ask_all(&mixed, acquire(3, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(is_failure(&replies[0], "OOM") && is_failure(&replies[2], "OOM"), "{replies:?}");
    assert!(matches!(&replies[1], Reply::Voted { vote: Vote::Refusal(Refusal::Held { .. }), .. }), "{replies:?}");
    // What takes no room goes on, and so does what frees it.
    let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let replies = guest.ask_all(&keys, release(1, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
}

#[tokio::test]
async fn scripts_that_are_gone_end_the_connection_for_all_that_go_together() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    let ended = guest.ask_all(&keys(["a", "b", "c"]), release(1, None)).await;
    assert!(matches!(&ended, Err(Trouble::Broken(why)) if why.contains("NOSCRIPT")), "{ended:?}");
}

#[tokio::test]
async fn fences_that_are_given_together_have_the_limits_of_those_that_are_not() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let keys = keys(["a", "b", "c"]);
    server.command(&["SET", &companion_key(companion::FENCE, &keys[1]), &Fence::MAX.to_string()]);
    let floor = Fence::new(Fence::MAX.get() / 2);
    guest.life.floor = floor;
    let epoch_text = format!("{:032x} {floor}", guest.life.epoch.0);
    server.command(&["SET", ServerKind::Server.epoch_key(), &epoch_text]);
    let replies = guest.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    let Reply::Voted { vote, .. } = &replies[1] else { panic!("{replies:?}") };
    assert_eq!(*vote, Vote::Refusal(Refusal::TooFarAhead), "there is none behind the last");
    for reply in [&replies[0], &replies[2]] {
        assert!(matches!(reply, Reply::Voted { vote: Vote::Grant { fence, .. }, .. } if *fence == floor), "{reply:?}");
    }
}

/// Each of them as it would be alone: a vote that is gone is given anew where that was asked for, one of another is
/// not, and one that is over stays so.
#[tokio::test]
async fn renewals_that_go_together_are_each_answered_as_it_would_be_alone() {
    let server = RedisServer::start();
    let mut guest = Guest::of(&server.url(), EARS).await;
    let keys = keys(["a", "b", "c"]);
    let first = guest.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    server.command(&["DEL", &keys[0].text]);
    let Request::Renew { attempt, fence, ttl, holder, mode, .. } = renew(1) else { unreachable!() };
    let replies = guest.ask_all(&keys, Request::Renew { attempt, fence, ttl, repair: false, holder, mode }).await;
    let replies = replies.unwrap();
    assert!(
        matches!(&replies[0], Reply::Voted { vote: Vote::Refusal(Refusal::Absent), .. }) && replies[1].is_grant(),
        "{replies:?}"
    );
    let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
    assert_eq!(fences(&replies), fences(&first));

    server.command(&["SET", &keys[1].text, &LeaseId::from_bits(2).reveal(), "PX", "60000"]);
    let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
    assert!(matches!(&replies[1], Reply::Voted { vote: Vote::Refusal(Refusal::Held { .. }), .. }), "{replies:?}");
    assert_eq!(server.cli(&["GET", &keys[1].text]), LeaseId::from_bits(2).reveal(), "it is the other's still");

    // A tombstone belongs to an attempt, for every name.
    server.command(&["SET", &tombstone_key(&keys[2], attempt), "1", "PX", "60000"]);
    let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
    let is_over = |reply: &Reply| matches!(reply, Reply::Voted { vote: Vote::Refusal(Refusal::Tombstoned), .. });
    assert!(replies.iter().all(is_over), "{replies:?}");

    server.command(&["DEL", &tombstone_key(&keys[2], attempt), ServerKind::Server.epoch_key()]);
    let replies = guest.ask_all(&keys, renew(1)).await.unwrap();
    let is_forgotten = |reply: &Reply| matches!(reply, Reply::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. });
    assert!(replies.iter().all(is_forgotten), "{replies:?}");
}
