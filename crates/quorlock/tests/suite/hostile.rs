//! Nodes that send invalid replies: no client panics, no invalid reply counts as a vote, and the well-behaved nodes
//! decide.

mod bundles;
mod fake;
mod invalid_replies;
mod resp;

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::long_timeouts::{self, ProxiedCluster, expect_soon};
use crate::common::random::{Random, seed};
use crate::common::{Cluster, builder, observe};
use fake::{Behavior, FakeNode, Stage};
use futures_util::future::join_all;
use invalid_replies::InvalidReply;
use quorlock::{AcquireError, Client, ConnectError, Lease};
use quorlock_testkit::{RedisServer, eventually_async};

/// The number of cases that run at the same time.
const CONCURRENT_CASES: usize = 64;
/// The node deadline of clients whose nodes do not send valid replies.
const SHORT_DEADLINE: Duration = Duration::from_millis(50);
const STAGES: [Stage; 3] = [Stage::Greeting, Stage::NodeCommand, Stage::Vote];

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts the panics of tasks. Without this count, no test would notice them.
fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
                PANICS.fetch_add(1, Ordering::AcqRel);
            }
            default_hook(info);
        }));
    });
}

fn assert_no_panic(case: &str) {
    assert_eq!(PANICS.load(Ordering::Acquire), 0, "a task panicked during or before the case: {case}");
}

fn all_invalid_replies(random: &mut Random) -> Vec<InvalidReply> {
    [
        invalid_replies::malformed_replies(random),
        invalid_replies::unrequested_messages("quorlock~hint:"),
        invalid_replies::impossible_values(),
    ]
    .concat()
}

/// Runs `check` for each invalid reply and each stage. The arguments of `check` are the number and the name of the
/// case, the first stage at which the fake node misbehaves, and its behavior.
async fn for_each_case(
    replies: Vec<InvalidReply>,
    stages: &[Stage],
    check: impl AsyncFn(usize, &str, Stage, Behavior),
) {
    watch_for_panics();
    let cases: Vec<_> = replies
        .into_iter()
        .flat_map(|(name, behavior)| stages.iter().map(move |stage| (name.clone(), *stage, behavior.clone())))
        .collect();
    for (batch, cases) in cases.chunks(CONCURRENT_CASES).enumerate() {
        let check = &check;
        join_all(cases.iter().enumerate().map(async |(index, (name, stage, behavior))| {
            let case = format!("{name}, from the {stage:?} on");
            expect_soon(check(batch * CONCURRENT_CASES + index, &case, *stage, behavior.clone())).await;
            assert_no_panic(&case);
        }))
        .await;
    }
}

/// Tries once to acquire. Returns `None` if the attempt fails.
async fn try_lock(client: &Client, name: &str, plain: bool) -> Option<Lease> {
    let lock = if plain { client.lock(name).plain() } else { client.lock(name) };
    lock.try_acquire().await.ok().flatten()
}

/// The constants of the cluster to which the server belongs.
fn constants(server: &RedisServer) -> [String; 4] {
    let meta = ["HMGET", "quorlock~meta", "cluster", "nodes", "max_ttl", "skew"];
    server.command(&meta).strings().try_into().expect("a cluster has four constants")
}

/// Returns the client, or `None` if `connect` refuses the fake node at once. Both are correct.
async fn client_unless_refused(connect: impl Future<Output = Result<Client, ConnectError>>) -> Option<Client> {
    connect.await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_uses_a_well_behaved_fake_like_a_node() {
    watch_for_panics();
    let fake = FakeNode::start(None, Stage::Vote, Behavior::BehaveWell).await;
    let client = long_timeouts::builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    for plain in [false, true] {
        let lease = expect_soon(try_lock(&client, "job", plain)).await.expect("the fake grants");
        expect_soon(lease.extend()).await.expect("the fake renews");
        expect_soon(lease.release()).await.expect("the fake releases");
    }
    let cluster = ProxiedCluster::start(3).await;
    let fakes = [
        FakeNode::start(Some(constants(&cluster.servers[0])), Stage::Vote, Behavior::BehaveWell).await,
        FakeNode::start(Some(constants(&cluster.servers[0])), Stage::Vote, Behavior::BehaveWell).await,
    ];
    let client = long_timeouts::builder()
        .nodes([cluster.servers[0].url(), fakes[0].url(), fakes[1].url()])
        .connect_lazy()
        .await
        .unwrap();
    drop(expect_soon(client.lock("job").acquire()).await.expect("all nodes grant"));
    cluster.servers[0].kill();
    drop(expect_soon(client.lock("other").acquire()).await.expect("two of three nodes are a majority"));
    assert_no_panic("a well-behaved fake");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_reply_of_the_only_node_is_no_vote() {
    let replies = all_invalid_replies(&mut Random(seed()));
    for_each_case(replies, &STAGES, async |index, case, stage, behavior| {
        let fake = FakeNode::start(None, stage, behavior).await;
        let Some(client) =
            client_unless_refused(builder().node_deadline(SHORT_DEADLINE).nodes([fake.url()]).connect_lazy()).await
        else {
            return;
        };
        if stage == Stage::Vote {
            observe::wait_until_node_votes(&client, 0).await;
        }
        let outcome = try_lock(&client, "job", index % 2 == 1).await;
        assert!(outcome.is_none(), "{case}: {outcome:?}");
        eventually_async(&format!("the fake to send {case}"), async || fake.invalid_reply_count() > 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_the_lock_from_a_well_behaved_majority() {
    // Long leases and a long deadline, because the well-behaved nodes may be slow.
    let cluster = ProxiedCluster::start(3).await;
    let replies = all_invalid_replies(&mut Random(seed()));
    for_each_case(replies, &STAGES, async |index, case, stage, behavior| {
        let fake = FakeNode::start(Some(constants(&cluster.servers[0])), stage, behavior).await;
        let nodes = [fake.url(), cluster.servers[1].url(), cluster.servers[2].url()];
        let Some(client) = client_unless_refused(long_timeouts::builder().nodes(nodes).connect_lazy()).await else {
            return;
        };
        let lock = format!("job-{index}-{case}");
        let lease = client.lock(&lock).acquire().await.unwrap_or_else(|error| panic!("{case}: {error}"));
        lease.extend().await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(try_lock(&client, &lock, false).await.is_none(), "{case}: the lock is held");
        lease.release().await.unwrap_or_else(|error| panic!("{case}: {error}"));
    })
    .await;
    cluster.wait_until_unlocked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_replies_of_a_majority_give_no_lease_and_leave_no_vote() {
    let cluster = Cluster::start(3).await;
    let replies = all_invalid_replies(&mut Random(seed()));
    for_each_case(replies, &STAGES[1..], async |index, case, stage, behavior| {
        let fakes = [
            FakeNode::start(Some(constants(&cluster.servers[0])), stage, behavior.clone()).await,
            FakeNode::start(Some(constants(&cluster.servers[0])), stage, behavior).await,
        ];
        let nodes = [fakes[0].url(), cluster.servers[2].url(), fakes[1].url()];
        let Some(client) =
            client_unless_refused(builder().node_deadline(SHORT_DEADLINE).nodes(nodes).connect_lazy()).await
        else {
            return;
        };
        let outcome = try_lock(&client, &format!("job-{index}"), index % 2 == 1).await;
        assert!(outcome.is_none(), "{case}: {outcome:?}");
    })
    .await;
    eventually_async("the votes of the real node to be released", async || cluster.lock_keys(2).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_surplus_reply_ends_the_connection() {
    watch_for_panics();
    let fake = FakeNode::start(None, Stage::Vote, Behavior::BehaveWell).await;
    let client = builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    let surplus = resp::array(&[resp::int(1), resp::int(fake::now()), resp::int(fake::now())]);
    for count in [1, 2, 1_000] {
        observe::wait_until_node_votes(&client, 0).await;
        fake.misbehave(Stage::Vote, Behavior::Append(surplus.repeat(count)));
        // The request gets its reply before the client notices the surplus reply.
        drop(expect_soon(client.lock("job").try_acquire()).await);
        eventually_async("the client to notice the surplus reply", async || observe::silence_of(&client, 0).is_some())
            .await;
        fake.misbehave(Stage::Vote, Behavior::BehaveWell);
    }
    observe::wait_until_node_votes(&client, 0).await;
    // A surplus reply to a node command ends the connection before the client sends a request.
    fake.misbehave(Stage::NodeCommand, Behavior::Append(surplus));
    let client = builder().node_deadline(SHORT_DEADLINE).nodes([fake.url()]).connect_lazy().await.unwrap();
    assert!(expect_soon(try_lock(&client, "job", false)).await.is_none());
    assert_no_panic("surplus replies");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_complete_after_the_deadline_is_no_vote() {
    watch_for_panics();
    let fake = FakeNode::start(None, Stage::Vote, Behavior::BehaveWell).await;
    let client = builder().node_deadline(SHORT_DEADLINE).nodes([fake.url()]).connect_lazy().await.unwrap();
    let slow_reply = [resp::bulk(&" ".repeat(100)), resp::int(1)].concat();
    fake.misbehave(Stage::Vote, Behavior::Trickle(slow_reply));
    let outcome = expect_soon(client.lock("job").try_acquire()).await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
    fake.misbehave(Stage::Vote, Behavior::BehaveWell);
    expect_soon(async {
        // The client replaces the connection on which the reply is incomplete.
        while try_lock(&client, "job", false).await.is_none() {}
    })
    .await;
    assert_no_panic("a reply that arrives slowly");
}
