//! Nodes that say what no node would say: no client ends by it, no vote is won with it, and those who behave decide.

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

/// How many of them are tried at the same time.
const AT_ONCE: usize = 64;
/// A client of nodes that will not answer need not wait for them.
const IMPATIENT: Duration = Duration::from_millis(50);
const STAGES: [From; 3] = [From::Greeting, From::NodeCommand, From::Vote];

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// A panic in a task is silent otherwise. One of a test itself is not, and none of the others' business.
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
    assert_eq!(PANICS.load(Ordering::Acquire), 0, "somebody panicked by the time of: {after}");
}

fn everything(draw: &mut Draw) -> Vec<Malice> {
    [malice::malformed(draw), malice::unasked("quorlock~hint:"), malice::exaggerated()].concat()
}

/// Runs one story for each malice and each stage, some at a time.
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

/// Asks once: for whatever reason there is no lease, there is none.
async fn try_lock(client: &Client, name: &str, plain: bool) -> Option<Lease> {
    let lock = if plain { client.lock(name).plain() } else { client.lock(name) };
    lock.try_acquire().await.ok().flatten()
}

/// The constants of a real server's cluster.
fn constants(server: &RedisServer) -> [String; 4] {
    let meta = ["HMGET", "quorlock~meta", "cluster", "nodes", "max_ttl", "skew"];
    server.command(&meta).strings().try_into().expect("four constants")
}

/// A node may be found unfit at once, and that is as good.
async fn connected(result: impl Future<Output = Result<Client, ConnectError>>) -> Option<Client> {
    result.await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fake_that_behaves_is_a_node_like_any_other() {
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
async fn the_only_node_wins_no_vote_by_what_it_says() {
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
async fn a_majority_that_behaves_decides_whatever_the_rest_says() {
    // Of long leases, and patient: those who behave may be slow.
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
async fn a_majority_wins_no_vote_by_what_it_says_and_leaves_nothing_on_the_rest() {
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
async fn an_answer_too_many_ends_the_connection() {
    watch_for_panics();
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    let more = resp::array(&[resp::int(1), resp::int(fake::now()), resp::int(fake::now())]);
    for answers in [1, 2, 1_000] {
        observe::healthy(&client, 0).await;
        fake.turn(From::Vote, Deed::Add(more.repeat(answers)));
        // What was asked is answered: that it is followed by more shows afterwards.
        drop(soon(client.lock("job").try_acquire()).await);
        eventually_async("the connection to end", async || observe::trouble(&client, 0).is_some()).await;
        fake.turn(From::Vote, Deed::Behave);
    }
    observe::healthy(&client, 0).await;
    // Answers to node commands that bring another along never get so far.
    fake.turn(From::NodeCommand, Deed::Add(more));
    let client = builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy().await.unwrap();
    assert!(soon(try_lock(&client, "job", false)).await.is_none());
    assert_no_panic("answers too many");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_byte_by_byte_is_no_vote_after_the_deadline() {
    watch_for_panics();
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy().await.unwrap();
    let dripped = [resp::bulk(&" ".repeat(100)), resp::int(1)].concat();
    fake.turn(From::Vote, Deed::Drip(dripped));
    let outcome = soon(client.lock("job").try_acquire()).await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
    fake.turn(From::Vote, Deed::Behave);
    soon(async {
        // The connection that owes an answer is replaced.
        while try_lock(&client, "job", false).await.is_none() {}
    })
    .await;
    assert_no_panic("drips");
}
