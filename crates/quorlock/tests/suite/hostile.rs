//! Nodes that send invalid replies: no client panics, no vote is won, and the well-behaved nodes decide.

mod bundles;
mod fake;
mod malice;
mod resp;

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::draw::{Draw, seed};
use crate::common::long::{self, Wired, soon};
use crate::common::{Cluster, builder, observe};
use fake::{Deed, Fake, From};
use futures_util::future::join_all;
use malice::Malice;
use quorlock::{AcquireError, Client, ConnectError, Lease};
use quorlock_testkit::{RedisServer, eventually_async};

/// The number of replies that are tried at the same time.
const AT_ONCE: usize = 64;
/// The deadline of clients whose nodes will not reply.
const IMPATIENT: Duration = Duration::from_millis(50);
const STAGES: [From; 3] = [From::Greeting, From::NodeCommand, From::Vote];

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Panics of tasks are silent otherwise. Ignores those of tests, which report their own.
fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
                PANICS.fetch_add(1, Ordering::AcqRel);
            }
            usual(info);
        }));
    });
}

fn assert_no_panic(after: &str) {
    assert_eq!(PANICS.load(Ordering::Acquire), 0, "a task panicked by the time of: {after}");
}

fn everything(draw: &mut Draw) -> Vec<Malice> {
    [malice::malformed(draw), malice::unasked("quorlock~hint:"), malice::exaggerated()].concat()
}

/// Runs a story for each invalid reply at each stage, some at a time.
async fn for_each(all: Vec<Malice>, stages: &[From], story: impl AsyncFn(usize, &str, From, Deed)) {
    watch_for_panics();
    let cases: Vec<_> = all
        .into_iter()
        .flat_map(|(name, deed)| stages.iter().map(move |from| (name.clone(), *from, deed.clone())))
        .collect();
    for (batch, cases) in cases.chunks(AT_ONCE).enumerate() {
        let story = &story;
        join_all(cases.iter().enumerate().map(async |(index, (name, from, deed))| {
            let named = format!("{name}, from the {from:?} on");
            soon(story(batch * AT_ONCE + index, &named, *from, deed.clone())).await;
            assert_no_panic(&named);
        }))
        .await;
    }
}

/// Tries once to acquire. Every error counts as no lease.
async fn try_lock(client: &Client, name: &str, plain: bool) -> Option<Lease> {
    let lock = if plain { client.lock(name).plain() } else { client.lock(name) };
    lock.try_acquire().await.ok().flatten()
}

/// The constants of the real server's cluster.
fn constants(server: &RedisServer) -> [String; 4] {
    let meta = ["HMGET", "quorlock~meta", "cluster", "nodes", "max_ttl", "skew"];
    server.command(&meta).strings().try_into().expect("four constants")
}

/// A node that is refused at once is a valid outcome, too.
async fn connected(result: impl Future<Output = Result<Client, ConnectError>>) -> Option<Client> {
    result.await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_fake_is_a_valid_node() {
    watch_for_panics();
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = long::builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    for plain in [false, true] {
        let lease = soon(try_lock(&client, "job", plain)).await.expect("it grants");
        soon(lease.extend()).await.expect("it renews");
        soon(lease.release()).await.expect("it takes back");
    }
    let honest = Wired::ready(3).await;
    let fakes = [
        Fake::start(Some(constants(&honest.servers[0])), From::Vote, Deed::Behave).await,
        Fake::start(Some(constants(&honest.servers[0])), From::Vote, Deed::Behave).await,
    ];
    let client =
        long::builder().nodes([honest.servers[0].url(), fakes[0].url(), fakes[1].url()]).connect_lazy().await.unwrap();
    drop(soon(client.lock("job").acquire()).await.expect("all of them grant"));
    honest.servers[0].kill();
    drop(soon(client.lock("other").acquire()).await.expect("two of them are a majority"));
    assert_no_panic("behaving");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_reply_of_the_only_node_wins_no_vote() {
    let all = everything(&mut Draw(seed()));
    for_each(all, &STAGES, async |index, named, from, deed| {
        let fake = Fake::start(None, from, deed).await;
        let Some(client) = connected(builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy()).await
        else {
            return;
        };
        if from == From::Vote {
            observe::healthy(&client, 0).await;
        }
        let outcome = try_lock(&client, "job", index % 2 == 1).await;
        assert!(outcome.is_none(), "{named}: {outcome:?}");
        eventually_async(&format!("{named} to be answered"), async || fake.deeds() > 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_majority_decides() {
    // Long leases and a long deadline, because the well-behaved nodes may be slow.
    let cluster = Wired::ready(3).await;
    let all = everything(&mut Draw(seed()));
    for_each(all, &STAGES, async |index, named, from, deed| {
        let fake = Fake::start(Some(constants(&cluster.servers[0])), from, deed).await;
        let nodes = [fake.url(), cluster.servers[1].url(), cluster.servers[2].url()];
        let Some(client) = connected(long::builder().nodes(nodes).connect_lazy()).await else { return };
        let lock = format!("job-{index}-{named}");
        let lease = client.lock(&lock).acquire().await.unwrap_or_else(|error| panic!("{named}: {error}"));
        lease.extend().await.unwrap_or_else(|error| panic!("{named}: {error}"));
        assert!(try_lock(&client, &lock, false).await.is_none(), "{named}: it is held");
        lease.release().await.unwrap_or_else(|error| panic!("{named}: {error}"));
    })
    .await;
    cluster.cleared().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_replies_of_a_majority_win_no_vote_and_leave_nothing_behind() {
    let cluster = Cluster::ready(3).await;
    let all = everything(&mut Draw(seed()));
    for_each(all, &STAGES[1..], async |index, named, from, deed| {
        let fakes = [
            Fake::start(Some(constants(&cluster.servers[0])), from, deed.clone()).await,
            Fake::start(Some(constants(&cluster.servers[0])), from, deed).await,
        ];
        let nodes = [fakes[0].url(), cluster.servers[2].url(), fakes[1].url()];
        let Some(client) = connected(builder().node_deadline(IMPATIENT).nodes(nodes).connect_lazy()).await else {
            return;
        };
        let outcome = try_lock(&client, &format!("job-{index}"), index % 2 == 1).await;
        assert!(outcome.is_none(), "{named}: {outcome:?}");
    })
    .await;
    eventually_async("nothing to be left", async || cluster.lock_keys(2).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_surplus_reply_ends_the_connection() {
    watch_for_panics();
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    let more = resp::array(&[resp::int(1), resp::int(fake::now()), resp::int(fake::now())]);
    for answers in [1, 2, 1_000] {
        observe::healthy(&client, 0).await;
        fake.turn(From::Vote, Deed::Add(more.repeat(answers)));
        // The request is answered; the surplus reply is noticed afterwards.
        drop(soon(client.lock("job").try_acquire()).await);
        eventually_async("the connection to end", async || observe::trouble(&client, 0).is_some()).await;
        fake.turn(From::Vote, Deed::Behave);
    }
    observe::healthy(&client, 0).await;
    // Surplus replies to node commands end the connection earlier.
    fake.turn(From::NodeCommand, Deed::Add(more));
    let client = builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy().await.unwrap();
    assert!(soon(try_lock(&client, "job", false)).await.is_none());
    assert_no_panic("answers too many");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_trickles_in_is_no_vote_after_the_deadline() {
    watch_for_panics();
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy().await.unwrap();
    let dripped = [resp::bulk(&" ".repeat(100)), resp::int(1)].concat();
    fake.turn(From::Vote, Deed::Drip(dripped));
    let outcome = soon(client.lock("job").try_acquire()).await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
    fake.turn(From::Vote, Deed::Behave);
    soon(async {
        // The connection that owes a reply is replaced.
        while try_lock(&client, "job", false).await.is_none() {}
    })
    .await;
    assert_no_panic("drips");
}
