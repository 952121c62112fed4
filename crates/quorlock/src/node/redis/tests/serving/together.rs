//! Tests of bundles. An error about one name affects only that name; an error of the server affects the whole bundle.

use super::*;
use crate::node::redis::codec::Bundles;
use crate::node::redis::scripts::tombstone_key;

impl TestClient {
    /// Sends the same request about several names in one batch.
    async fn ask_all(&mut self, keys: &[Arc<LockKey>], request: Request) -> Result<Vec<Reply>, Trouble> {
        let message = |key| Message { key: Arc::clone(key), request: Arc::new(request.clone()) };
        let messages: Vec<Message> = keys.iter().map(message).collect();
        // Each plain acquire is a separate `SET`, so plain acquires are not bundled.
        if !matches!(request, Request::PlainAcquire { .. }) {
            assert_eq!(
                Bundles::of(&messages).counts().into_iter().max(),
                Some(keys.len()),
                "the messages are not one bundle"
            );
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

/// Returns the fence that each request was granted.
fn fences(replies: &[Reply]) -> Vec<Fence> {
    let fence = |reply: &Reply| match reply {
        Reply::Voted { vote: Vote::Grant { fence, .. }, .. } => *fence,
        reply => panic!("{reply:?}"),
    };
    replies.iter().map(fence).collect()
}

fn is_failure(reply: &Reply, reason: &str) -> bool {
    matches!(reply, Reply::Failed(why) if why.contains(reason))
}

#[tokio::test]
async fn bundled_requests_share_their_reads() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let calls = |words: &[(&str, u64)]| words.iter().map(|(name, count)| ((*name).into(), *count)).collect::<Vec<_>>();
    let keys = keys(["a", "b", "c"]);

    let before = command_counts(&server);
    let replies = client.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, Some(5))).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let used = increase(&before, command_counts(&server));
    assert_eq!(used, calls(&[("evalsha", 1), ("exists", 1), ("mget", 1), ("set", 6), ("time", 1)]));

    // The first renewal after a wait removes the ticket from the stored fence. Later renewals only move the expiry.
    client.ask_all(&keys, renew(1)).await.unwrap();
    let before = command_counts(&server);
    let renewed = client.ask_all(&keys, renew(1)).await.unwrap();
    assert_eq!(fences(&renewed), fences(&replies));
    let used = increase(&before, command_counts(&server));
    assert_eq!(used, calls(&[("evalsha", 1), ("mget", 1), ("pexpire", 6), ("pttl", 3), ("time", 1)]));

    let before = command_counts(&server);
    let replies = client.ask_all(&keys, release(1, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let used = increase(&before, command_counts(&server));
    assert_eq!(used, calls(&[("del", 1), ("evalsha", 1), ("exists", 1), ("mget", 1)]));
}

#[tokio::test]
async fn an_error_about_one_name_does_not_affect_the_other_names_of_its_bundle() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let keys = keys(["a", "b", "c"]);
    let middle_key = &keys[1];
    // If another program has the vote's key, the lock counts as held. Other data in the queue's key are an error.
    for key in [middle_key.text.clone(), companion_key(companion::QUEUE, middle_key)] {
        let is_expected = |reply: &Reply| {
            if key == middle_key.text { is_other_program(reply) } else { is_failure(reply, "kind of value") }
        };
        server.command(&["LPUSH", &key, "other data"]);
        let replies = client.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
        assert!(replies[0].is_grant() && is_expected(&replies[1]) && replies[2].is_grant(), "{replies:?}");
        // A renewal does not read the queue.
        let replies = client.ask_all(&keys, renew(1)).await.unwrap();
        assert!(replies[0].is_grant() && replies[2].is_grant(), "{replies:?}");
        assert!(if key == middle_key.text { is_expected(&replies[1]) } else { replies[1].is_grant() }, "{replies:?}");
        let replies = client.ask_all(&keys, release(1, None)).await.unwrap();
        assert!(replies[0].is_grant() && !replies[1].is_grant() && replies[2].is_grant(), "{replies:?}");
        server.command(&["DEL", &key, &middle_key.text]);
    }
    let replies = client.ask_all(&keys, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
}

fn is_other_program(reply: &Reply) -> bool {
    let Reply::Voted { vote: Vote::Refusal(Refusal::Held { holder: Some(holder), .. }), .. } = reply else {
        return false;
    };
    holder.to_string() == "another program (key type list)"
}

#[tokio::test]
async fn a_forbidden_name_does_not_affect_the_other_names_of_its_bundle() {
    let server = RedisServer::start();
    let mut owner = TestClient::open(&server.url(), CHANNEL).await;
    let keys = keys(["a", "b", "c"]);
    let (attempt, ttl) = (LeaseId::from_bits(1), Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap());
    let all_companions = "~quorlock~*";
    let no_companions = [
        "~quorlock:*",
        "~quorlock~epoch",
        "~quorlock~meta",
        "~quorlock~done:*",
        "~quorlock~*:quorlock:a",
        "~quorlock~*:quorlock:c",
    ];
    let read_only = ["~quorlock:a", "~quorlock:c", "%R~quorlock:b", all_companions];
    for (name, patterns) in [
        ("no-vote", &["~quorlock:a", "~quorlock:c", all_companions][..]),
        ("no-companions", &no_companions),
        ("read-only", &read_only),
    ] {
        let user = ["ACL", "SETUSER", name, "reset", "on", ">pass", "&*", "+@all"];
        if server.cli(&[&user, patterns].concat()) != "OK" {
            // Redis before 7 does not support read-only key permissions.
            assert_eq!(name, "read-only");
            continue;
        }
        let mut client = TestClient::open(&format!("redis://{name}:pass@{}", server.addr()), Channel(0xd)).await;
        let requests = [
            (acquire(1, Mode::EXCLUSIVE, None), release(1, None)),
            (Request::PlainAcquire { attempt, ttl }, Request::PlainRelease { attempt }),
        ];
        for (acquire_one, release_one) in requests {
            // Plain requests use no companion keys.
            if acquire_one.is_plain() && name == "no-companions" {
                continue;
            }
            let replies = client.ask_all(&keys, acquire_one).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            // Store a vote of the attempt, which the restricted user could not store.
            assert_eq!(server.cli(&["SET", &keys[1].text, &attempt.reveal()]), "OK");
            let renewed = if release_one.is_plain() { Request::PlainExtend { attempt, ttl } } else { renew(1) };
            let replies = client.ask_all(&keys, renewed).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            let replies = client.ask_all(&keys, release_one).await.unwrap();
            assert!(
                replies[0].is_grant() && is_failure(&replies[1], "") && replies[2].is_grant(),
                "{name}: {replies:?}"
            );
            server.command(&["DEL", &keys[1].text]);
            let replies = owner.ask_all(&keys, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
            assert!(replies.iter().all(Reply::is_grant), "{name}: a key was left behind: {replies:?}");
            let replies = owner.ask_all(&keys, release(2, None)).await.unwrap();
            assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
        }
    }
}

#[tokio::test]
async fn a_demoted_server_ends_the_session_of_a_bundle() {
    let server = RedisServer::start();
    let open = async || TestClient::open(&server.url(), CHANNEL).await;
    let mut clients = [open().await, open().await, open().await];
    let keys = keys(["a", "b", "c"]);
    let replies = clients[0].ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let other_keys = self::keys(["d", "e", "f"]);
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let requests =
        [(other_keys, acquire(2, Mode::EXCLUSIVE, None)), (keys.clone(), renew(1)), (keys, release(1, None))];
    for (client, (keys, request)) in clients.iter_mut().zip(requests) {
        let ended = client.ask_all(&keys, request).await;
        assert!(matches!(&ended, Err(Trouble::Broken(why)) if why.contains("READONLY")), "{ended:?}");
    }
}

#[tokio::test]
async fn a_server_without_memory_fails_the_acquires_of_a_bundle() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let keys = keys(["a", "b", "c"]);
    let replies = client.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    let other_keys = self::keys(["d", "e", "f"]);
    let replies = client.ask_all(&other_keys, acquire(2, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(replies.iter().all(|reply| is_failure(reply, "OOM")), "{replies:?}");
    // In a bundle with requests that fail, a request for a held name still gets its refusal.
    let [first, _, last] = &other_keys;
    let mixed_keys = [Arc::clone(first), Arc::clone(&keys[0]), Arc::clone(last)];
    let replies = client.ask_all(&mixed_keys, acquire(3, Mode::EXCLUSIVE, None)).await.unwrap();
    assert!(is_failure(&replies[0], "OOM") && is_failure(&replies[2], "OOM"), "{replies:?}");
    assert!(matches!(&replies[1], Reply::Voted { vote: Vote::Refusal(Refusal::Held { .. }), .. }), "{replies:?}");
    // Requests that need no memory, or that free memory, succeed.
    let replies = client.ask_all(&keys, renew(1)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
    let replies = client.ask_all(&keys, release(1, None)).await.unwrap();
    assert!(replies.iter().all(Reply::is_grant), "{replies:?}");
}

#[tokio::test]
async fn a_missing_script_ends_the_session_of_a_bundle() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    let ended = client.ask_all(&keys(["a", "b", "c"]), release(1, None)).await;
    assert!(matches!(&ended, Err(Trouble::Broken(why)) if why.contains("NOSCRIPT")), "{ended:?}");
}

#[tokio::test]
async fn fences_of_a_bundle_have_the_same_limits_as_other_fences() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let keys = keys(["a", "b", "c"]);
    server.command(&["SET", &companion_key(companion::FENCE, &keys[1]), &Fence::MAX.to_string()]);
    let floor = Fence::new(Fence::MAX.get() / 2);
    client.life.floor = floor;
    let epoch_text = format!("{:032x} {floor}", client.life.epoch.0);
    server.command(&["SET", ServerKind::Server.epoch_key(), &epoch_text]);
    let replies = client.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    let Reply::Voted { vote, .. } = &replies[1] else { panic!("{replies:?}") };
    assert_eq!(*vote, Vote::Refusal(Refusal::TooFarAhead), "there is no fence above the largest fence");
    for reply in [&replies[0], &replies[2]] {
        assert!(matches!(reply, Reply::Voted { vote: Vote::Grant { fence, .. }, .. } if *fence == floor), "{reply:?}");
    }
}

/// A missing vote is restored only if the renewal asks for a repair. A vote of another attempt is not replaced, and a
/// tombstoned attempt gets no vote.
#[tokio::test]
async fn each_renewal_of_a_bundle_is_answered_as_if_it_were_alone() {
    let server = RedisServer::start();
    let mut client = TestClient::open(&server.url(), CHANNEL).await;
    let keys = keys(["a", "b", "c"]);
    let first = client.ask_all(&keys, acquire(1, Mode::EXCLUSIVE, None)).await.unwrap();
    server.command(&["DEL", &keys[0].text]);
    let Request::Renew { attempt, fence, ttl, holder, mode, .. } = renew(1) else { unreachable!() };
    let replies = client.ask_all(&keys, Request::Renew { attempt, fence, ttl, repair: false, holder, mode }).await;
    let replies = replies.unwrap();
    assert!(
        matches!(&replies[0], Reply::Voted { vote: Vote::Refusal(Refusal::Absent), .. }) && replies[1].is_grant(),
        "{replies:?}"
    );
    let replies = client.ask_all(&keys, renew(1)).await.unwrap();
    assert_eq!(fences(&replies), fences(&first));

    server.command(&["SET", &keys[1].text, &LeaseId::from_bits(2).reveal(), "PX", "60000"]);
    let replies = client.ask_all(&keys, renew(1)).await.unwrap();
    assert!(matches!(&replies[1], Reply::Voted { vote: Vote::Refusal(Refusal::Held { .. }), .. }), "{replies:?}");
    assert_eq!(server.cli(&["GET", &keys[1].text]), LeaseId::from_bits(2).reveal(), "the vote was replaced");

    // A tombstone belongs to an attempt, for every name.
    server.command(&["SET", &tombstone_key(&keys[2], attempt), "1", "PX", "60000"]);
    let replies = client.ask_all(&keys, renew(1)).await.unwrap();
    let is_tombstoned = |reply: &Reply| matches!(reply, Reply::Voted { vote: Vote::Refusal(Refusal::Tombstoned), .. });
    assert!(replies.iter().all(is_tombstoned), "{replies:?}");

    server.command(&["DEL", &tombstone_key(&keys[2], attempt), ServerKind::Server.epoch_key()]);
    let replies = client.ask_all(&keys, renew(1)).await.unwrap();
    let is_wrong_epoch = |reply: &Reply| matches!(reply, Reply::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. });
    assert!(replies.iter().all(is_wrong_epoch), "{replies:?}");
}
