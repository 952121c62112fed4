//! Wrong wall clocks. A wrong clock of a client does not matter. Clients report a node with a wrong clock, and its
//! votes do not count.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{AcquireError, Client, Lease, NodeVote, Retry, Silence};
use quorlock_testkit::{Clock, RedisServer};

use crate::common::long_timeouts::{wait_for_silence, wait_until_all_vote};
use crate::common::observe::wall_micros;
use crate::common::{Cluster, builder, lock_keys};

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_MICROS: i64 = 3_600_000_000;
const NAME: &str = "clocks";
/// How often each process acquires the lock.
const ACQUIRES_PER_PROCESS: usize = 25;
/// The timeout of an acquire. Only a failing test reaches it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(60);
/// Names the nodes to a child process.
const URLS_VARIABLE: &str = "QUORLOCK_TEST_URLS";
/// Names the file to which every holder appends a line.
const LEDGER_VARIABLE: &str = "QUORLOCK_TEST_LEDGER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_a_wrong_clock_acquire_and_release_as_usual() {
    let cluster = Cluster::start(3).await;
    let ledger = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    let path = ledger.path().to_str().expect("the path is UTF-8");
    let (clock_ahead, clock_behind) = (Clock::new(), Clock::new());
    clock_ahead.set_offset_micros(HOUR_MICROS);
    clock_behind.set_offset_micros(-HOUR_MICROS);
    let children: Vec<Child> = [&clock_ahead, &clock_behind].map(|clock| start_child(clock, &cluster, path)).into();
    acquire_repeatedly(&cluster.client().await, path).await;
    for child in children {
        let output = child.wait_with_output().expect("a child ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    let mut text = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut text)).expect("the ledger can be read");
    let lines: Vec<(u64, u64)> = text.lines().map(parse_line).collect();
    assert!(lines.is_sorted_by(|earlier, later| earlier.0 < later.0), "the fences do not grow: {text}");
    let now = wall_micros();
    let count_lines = |is_match: &dyn Fn(u64) -> bool| lines.iter().filter(|(_, clock)| is_match(*clock)).count();
    let half_hour = HOUR.as_micros() as u64 / 2;
    assert_eq!(
        count_lines(&|clock| clock > now + half_hour),
        ACQUIRES_PER_PROCESS,
        "lines of the child whose clock is ahead"
    );
    assert_eq!(
        count_lines(&|clock| clock < now - half_hour),
        ACQUIRES_PER_PROCESS,
        "lines of the child whose clock is behind"
    );
    assert_eq!(lines.len(), 3 * ACQUIRES_PER_PROCESS);
}

/// Starts this test binary as a client with another wall clock.
fn start_child(clock: &Clock, cluster: &Cluster, ledger: &str) -> Child {
    let program = std::env::current_exe().expect("the path of the test binary is known");
    Command::new(program)
        .args(crate::common::args_to_run(concat!(module_path!(), "::child_process")))
        .envs(clock.envs())
        .env(URLS_VARIABLE, cluster.urls().join(" "))
        .env(LEDGER_VARIABLE, ledger)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary can be started")
}

#[tokio::test]
#[ignore = "another test runs this test in a child process"]
async fn child_process() {
    let (Ok(urls), Ok(ledger)) = (std::env::var(URLS_VARIABLE), std::env::var(LEDGER_VARIABLE)) else { return };
    let client = builder().nodes(urls.split(' ')).connect_lazy().await.expect("no node is unfit");
    acquire_repeatedly(&client, &ledger).await;
}

async fn acquire_repeatedly(client: &Client, ledger: &str) {
    wait_until_all_vote(client).await;
    for _ in 0..ACQUIRES_PER_PROCESS {
        let lease = client.lock(NAME).acquire_within(ACQUIRE_TIMEOUT).await.expect("every client gets the lock");
        write_line(&lease, ledger);
        lease.release().await.expect("all nodes answer");
    }
}

/// Appends a line to the ledger: the fence, and the wall clock of this process.
fn write_line(lease: &Lease, ledger: &str) {
    let mut file = OpenOptions::new().append(true).open(ledger).expect("the ledger file exists");
    let fence = lease.fence().expect("the lease is held");
    file.write_all(format!("{fence} {}\n", wall_micros()).as_bytes()).expect("the ledger can be written");
}

fn parse_line(line: &str) -> (u64, u64) {
    let (fence, clock) = line.split_once(' ').expect("a line has two numbers");
    (fence.parse().expect("the fence is a number"), clock.parse().expect("the time is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_ahead_is_reported_and_does_not_vote() {
    expect_skew_report(HOUR_MICROS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_behind_is_reported_and_does_not_vote() {
    expect_skew_report(-HOUR_MICROS).await;
}

/// Checks that clients report a node whose clock has this offset, and that the votes of this node do not count.
async fn expect_skew_report(offset_micros: i64) {
    let clock = Clock::new();
    clock.set_offset_micros(offset_micros);
    let mut servers = RedisServer::start_many(2);
    servers.push(RedisServer::builder().clock(&clock).start());
    let cluster = Cluster { servers };
    let client = cluster.client().await;
    client.init_cluster().await.expect("a new cluster can be initialized");
    let is_skewed =
        |silence: &Silence| matches!(silence, Silence::Skewed(skew) if (skew - offset_micros).abs() < HOUR_MICROS / 2);
    wait_for_silence(&client, 2, is_skewed).await;
    assert!(client.nodes()[..2].iter().all(|(_, silence)| silence.is_none()), "{:?}", client.nodes());

    // The other nodes continue, with fences from their own clocks.
    let lock = client.lock(NAME);
    for _ in 0..20 {
        let lease = lock.acquire().await.expect("two nodes are a majority");
        let fence = lease.fence().expect("the lease is held").get();
        assert!(
            fence.abs_diff(wall_micros()) < HOUR.as_micros() as u64 / 2,
            "fence {fence} does not come from the clocks of the other nodes"
        );
        assert!(lock_keys(&cluster.servers[2]).is_empty(), "the skewed node has a vote");
        lease.release().await.expect("two nodes answer");
    }

    // If the vote of the skewed node is needed, the error must say why this vote does not count.
    cluster.servers[0].kill();
    wait_for_silence(&client, 0, |silence| !is_skewed(silence)).await;
    let Err(error @ AcquireError::NoQuorum { .. }) = lock.retry(Retry::ONCE).acquire().await else {
        panic!("the lock was acquired")
    };
    let AcquireError::NoQuorum { tally, .. } = &error else { unreachable!("matched above") };
    assert!(matches!(&tally.votes[2], NodeVote::Silent(silence) if is_skewed(silence)), "{error}");
    assert!(error.to_string().contains("skewed"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_votes_again_once_its_clock_is_corrected() {
    let clock = Clock::new();
    let mut servers = RedisServer::start_many(2);
    servers.push(RedisServer::builder().clock(&clock).start());
    let cluster = Cluster { servers };
    let client = cluster.client().await;
    client.init_cluster().await.expect("a new cluster can be initialized");
    wait_until_all_vote(&client).await;
    clock.set_offset_micros(-HOUR_MICROS);
    wait_for_silence(&client, 2, |silence| matches!(silence, Silence::Skewed(_))).await;
    drop(client.lock(NAME).acquire().await.expect("two nodes are a majority"));
    clock.set_offset_micros(0);
    wait_until_all_vote(&client).await;
}
