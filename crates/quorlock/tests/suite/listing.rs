//! Listing locks on real servers: in steps, between keys of other programs, and with nodes down.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_leases::{ProxiedCluster, connect_to_all, wait_for_silence};
use quorlock::{Client, Filter, ReadError, Report, Silence};

async fn names(client: &Client) -> Vec<String> {
    let listing = client.list(&Filter::default()).await.unwrap();
    assert!(!listing.is_cut);
    listing.names.iter().map(|inspection| inspection.name.to_string()).collect()
}

/// A client with a short deadline for nodes that do not reply.
async fn brisk(cluster: &ProxiedCluster) -> Client {
    connect_to_all(cluster.direct().node_deadline(Duration::from_millis(500))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_other_programs_are_no_locks() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    for server in &cluster.servers {
        server.command(&["SET", "b", "data"]);
        server.command(&["SET", "quorlock", "data"]);
        server.command(&["SET", "xquorlock:x", "data"]);
        server.command(&["SET", "quorlock~queue:other:key", "data"]);
    }
    assert_eq!(names(&client).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_another_program_is_listed_with_the_type_of_its_key() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    for server in &cluster.servers {
        server.command(&["HSET", "quorlock:redisson", "5c4e:1", "1"]);
        server.command(&["PEXPIRE", "quorlock:redisson", "100000"]);
    }
    let listing = client.list(&Filter::new("*")).await.unwrap();
    let [seen] = listing.names.as_slice() else { panic!("one name is held: {listing:?}") };
    assert_eq!(seen.holder().unwrap().0.unwrap().to_string(), "another program (key type hash)");
    let remaining = |said: &Report| said.held.as_ref().and_then(|held| held.remaining);
    assert!(seen.nodes.iter().all(|(_, said)| remaining(said.as_ref().unwrap()).is_some()), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_prefix_locks_are_recognized_by_their_companion_keys() {
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct().key_template("{name}")).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let _share = client.rw("shared").read().acquire().await.unwrap();
    let _plain = client.lock("plain").plain().acquire().await.unwrap();
    client.lock("free again").acquire().await.unwrap().release().await.unwrap();
    cluster.servers[0].command(&["SET", "b", "data"]);
    assert_eq!(names(&client).await, ["a", "shared"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_may_have_a_suffix() {
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct().key_template("{name}:lock")).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let _plain = client.lock("plain").plain().acquire().await.unwrap();
    cluster.servers[0].command(&["SET", "b", "data"]);
    assert_eq!(names(&client).await, ["a", "plain"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_scanned_in_steps() {
    let cluster = ProxiedCluster::start(1).await;
    let client = brisk(&cluster).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let fill = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, 'data') end";
    cluster.servers[0].command(&["EVAL", fill, "0"]);
    assert_eq!(names(&client).await, ["a"]);
    let stats = cluster.servers[0].command(&["INFO", "commandstats"]);
    let scans = stats.as_str().unwrap().lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    let scans: u32 = scans.unwrap().split(',').next().unwrap().parse().unwrap();
    assert!(scans >= 20, "{scans} steps for 20000 keys");
    assert!(!stats.as_str().unwrap().contains("cmdstat_keys:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_node_is_named_and_hides_no_lock() {
    let cluster = ProxiedCluster::start(3).await;
    let client = brisk(&cluster).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    cluster.servers[1].kill();
    wait_for_silence(&client, 1, |_| true).await;
    let listing = client.list(&Filter::default()).await.unwrap();
    assert_eq!(listing.names.len(), 1);
    assert_eq!(listing.missing.iter().map(|(node, _)| node.clone()).collect::<Vec<_>>(), [client.nodes()[1].0.clone()]);
    cluster.servers[2].freeze();
    let error = client.list(&Filter::default()).await.unwrap_err();
    let ReadError::NoQuorum { tally, .. } = error else { panic!("{error}") };
    assert_eq!((tally.granted(), tally.silent()), (1, 2));
    assert_ne!(tally.votes[2], quorlock::NodeVote::Silent(Silence::Unheard));
}

/// Fills a server with fences of free names, and with votes.
fn fill(server: &quorlock_testkit::RedisServer, past: usize, held: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'quorlock~fence:quorlock:past/' .. i, '1 x 1', 'EX', 86400) end \
         for i = 1, tonumber(ARGV[2]) do redis.call('SET', 'quorlock:held/' .. i, string.format('%032x', i), 'EX', 3600) end";
    server.command(&["EVAL", script, "0", &past.to_string(), &held.to_string()]);
}

/// How often a server has executed a command.
fn calls(server: &quorlock_testkit::RedisServer, command: &str) -> usize {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.as_str().unwrap().split(&format!("cmdstat_{command}:calls=")).nth(1);
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_names_cost_a_listing_few_commands() {
    const HELD: usize = 100;
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct()).await;
    fill(&cluster.servers[0], 42_000, HELD);
    let before = calls(&cluster.servers[0], "evalsha");
    assert_eq!(names(&client).await.len(), HELD);
    let searches = calls(&cluster.servers[0], "evalsha") - before - HELD;
    assert!(searches <= 12, "{searches} steps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_few_names_of_many() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    for server in &cluster.servers {
        fill(server, 0, 12_000);
    }
    let before = calls(&cluster.servers[0], "evalsha");
    let page = client.list_page(&Filter::default().limit(1), "").await.unwrap();
    assert_eq!(page.names.len(), 1);
    assert!(page.next.is_some());
    let commands = calls(&cluster.servers[0], "evalsha") - before;
    assert!(commands <= 2, "a step of the search and a look at one name, not {commands}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_have_the_names_of_a_node_that_cannot_be_searched() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    cluster.servers[0].command(&["ACL", "SETUSER", "default", "-scan"]);
    let page = client.list_page(&Filter::default(), "").await.unwrap();
    assert_eq!(page.missing.len(), 1, "{page:?}");
    assert_eq!(page.names.len(), 1, "{page:?}");
    cluster.servers[1].command(&["ACL", "SETUSER", "default", "-scan"]);
    let error = client.list_page(&Filter::default(), "1 1 0 ").await.unwrap_err();
    assert!(matches!(error, ReadError::NoQuorum { .. }), "a failure on an earlier page counts: {error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_have_every_name_once() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    for server in &cluster.servers {
        fill(server, 3_000, 3_000);
    }
    let (mut found, mut position) = (Vec::new(), String::new());
    loop {
        let page = client.list_page(&Filter::beginning_with("held/").limit(700), &position).await.unwrap();
        assert!(page.names.len() <= 700 && page.missing.is_empty());
        found.extend(page.names.iter().map(|inspection| inspection.name.to_string()));
        match page.next {
            Some(next) => position = next,
            None => break,
        }
    }
    found.sort_unstable();
    let mut wanted: Vec<String> = (1..=3_000).map(|number| format!("held/{number}")).collect();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let error = client.list_page(&Filter::default(), "elsewhere").await.unwrap_err();
    assert_eq!(error, ReadError::InvalidCursor);
}
