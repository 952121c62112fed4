//! Wrong wall clocks: that of a client does not matter unless it is set while a lease is held; that of a node is
//! noticed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{AcquireError, Client, Lease, NodeVote, Retry, Silence};
use quorlock_testkit::{Clock, RedisServer};

use crate::common::long::{noticed, voting};
use crate::common::observe::wall_micros;
use crate::common::{Cluster, builder, lock_keys};

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MICROS: i64 = 3_600_000_000;
const NAME: &str = "clocks";
const TURNS: usize = 25;
/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);
const URLS: &str = "QUORLOCK_TEST_URLS";
const LEDGER: &str = "QUORLOCK_TEST_LEDGER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_a_wrong_clock_lock_as_usual() {
    let cluster = Cluster::ready(3).await;
    let ledger = tempfile::NamedTempFile::new().expect("the temporary folder takes a file");
    let path = ledger.path().to_str().expect("it is UTF-8");
    let (ahead, behind) = (Clock::new(), Clock::new());
    ahead.set_offset_micros(HOUR_MICROS);
    behind.set_offset_micros(-HOUR_MICROS);
    let children: Vec<Child> = [&ahead, &behind].map(|clock| child(clock, &cluster, path)).into();
    take_turns(&cluster.client().await, path).await;
    for child in children {
        let output = child.wait_with_output().expect("a child ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).expect("the ledger can be read");
    let lines: Vec<(u64, u64)> = text.lines().map(parse).collect();
    assert!(lines.is_sorted_by(|earlier, later| earlier.0 < later.0), "out of order: {text}");
    let now = wall_micros();
    let by_clock = |is: &dyn Fn(u64) -> bool| lines.iter().filter(|(_, clock)| is(*clock)).count();
    let half = HOUR.as_micros() as u64 / 2;
    assert_eq!(by_clock(&|clock| clock > now + half), TURNS, "the child whose clock is ahead");
    assert_eq!(by_clock(&|clock| clock < now - half), TURNS, "the child whose clock is behind");
    assert_eq!(lines.len(), 3 * TURNS);
}

/// This test binary as a separate client with another clock.
fn child(clock: &Clock, cluster: &Cluster, ledger: &str) -> Child {
    let program = std::env::current_exe().expect("a process has a program");
    Command::new(program)
        .args(crate::common::only(concat!(module_path!(), "::a_child_takes_its_turns")))
        .envs(clock.envs())
        .env(URLS, cluster.urls().join(" "))
        .env(LEDGER, ledger)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a test binary can be started")
}

#[tokio::test]
#[ignore = "only of use to the test that starts it in a process of its own"]
async fn a_child_takes_its_turns() {
    let (Ok(urls), Ok(ledger)) = (std::env::var(URLS), std::env::var(LEDGER)) else { return };
    let client = builder().nodes(urls.split(' ')).connect_lazy().await.expect("the cluster is fit");
    take_turns(&client, &ledger).await;
}

async fn take_turns(client: &Client, ledger: &str) {
    voting(client).await;
    for _ in 0..TURNS {
        let lease = client.lock(NAME).acquire_within(PATIENCE).await.expect("everyone gets a turn");
        enter(&lease, ledger);
        lease.release().await.expect("all nodes answer");
    }
}

/// Writes a line under the lock: the fence, and the time by this process's clock.
fn enter(lease: &Lease, ledger: &str) {
    let mut file = OpenOptions::new().append(true).open(ledger).expect("the ledger is there");
    let fence = lease.fence().expect("it holds");
    file.write_all(format!("{fence} {}\n", wall_micros()).as_bytes()).expect("the ledger can be written");
}

fn parse(line: &str) -> (u64, u64) {
    let (fence, clock) = line.split_once(' ').expect("two numbers");
    (fence.parse().expect("a fence"), clock.parse().expect("a time"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_ahead_is_reported_and_does_not_vote() {
    reports(HOUR_MICROS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_behind_is_reported_and_does_not_vote() {
    reports(-HOUR_MICROS).await;
}

async fn reports(offset: i64) {
    let clock = Clock::new();
    clock.set_offset_micros(offset);
    let mut servers = RedisServer::start_many(2);
    servers.push(RedisServer::builder().clock(&clock).start());
    let cluster = Cluster { servers };
    let client = cluster.client().await;
    client.init_cluster().await.expect("a new cluster can be declared");
    let is_skewed = |why: &Silence| matches!(why, Silence::Skewed(skew) if (skew - offset).abs() < HOUR_MICROS / 2);
    noticed(&client, 2, is_skewed).await;
    assert!(client.nodes()[..2].iter().all(|(_, trouble)| trouble.is_none()), "{:?}", client.nodes());

    // The other nodes continue, with fences from their own clocks.
    let lock = client.lock(NAME);
    for _ in 0..20 {
        let lease = lock.acquire().await.expect("two nodes are a majority");
        let fence = lease.fence().expect("it holds").get();
        assert!(fence.abs_diff(wall_micros()) < HOUR.as_micros() as u64 / 2, "{fence} is not of their clocks");
        assert!(lock_keys(&cluster.servers[2]).is_empty(), "it was asked");
        lease.release().await.expect("two nodes answer");
    }

    // If its vote were needed, the error must say why it does not count.
    cluster.servers[0].kill();
    noticed(&client, 0, |why| !is_skewed(why)).await;
    let Err(error @ AcquireError::NoQuorum { .. }) = lock.retry(Retry::ONCE).acquire().await else { panic!("won") };
    let AcquireError::NoQuorum { tally, .. } = &error else { unreachable!("matched above") };
    assert!(matches!(&tally.votes[2], NodeVote::Silent(why) if is_skewed(why)), "{error}");
    assert!(error.to_string().contains("skewed"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_votes_again_once_its_clock_is_corrected() {
    let clock = Clock::new();
    let mut servers = RedisServer::start_many(2);
    servers.push(RedisServer::builder().clock(&clock).start());
    let cluster = Cluster { servers };
    let client = cluster.client().await;
    client.init_cluster().await.expect("a new cluster can be declared");
    voting(&client).await;
    clock.set_offset_micros(-HOUR_MICROS);
    noticed(&client, 2, |why| matches!(why, Silence::Skewed(_))).await;
    drop(client.lock(NAME).acquire().await.expect("two nodes are a majority"));
    clock.set_offset_micros(0);
    voting(&client).await;
}
