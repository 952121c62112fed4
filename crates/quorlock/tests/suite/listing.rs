//! Lists locks on real servers: with many keys, with keys of other programs, and with unreachable nodes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::common::long_timeouts::{ProxiedCluster, connect_to_all, wait_for_silence};
use quorlock::{Client, Filter, ReadError, Report, Silence};

async fn names(client: &Client) -> Vec<String> {
    let listing = client.list(&Filter::default()).await.unwrap();
    assert!(!listing.is_truncated);
    listing.names.iter().map(|inspection| inspection.name.to_string()).collect()
}

/// A client with a short node deadline.
async fn impatient_client(cluster: &ProxiedCluster) -> Client {
    connect_to_all(cluster.direct_builder().node_deadline(Duration::from_millis(500))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_has_no_keys_of_other_programs() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
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
    let client = impatient_client(&cluster).await;
    for server in &cluster.servers {
        server.command(&["HSET", "quorlock:redisson", "5c4e:1", "1"]);
        server.command(&["PEXPIRE", "quorlock:redisson", "100000"]);
    }
    let listing = client.list(&Filter::new("*")).await.unwrap();
    let [inspection] = listing.names.as_slice() else { panic!("not exactly one name is listed: {listing:?}") };
    assert_eq!(inspection.holder().unwrap().0.unwrap().to_string(), "another program (key type hash)");
    let remaining = |report: &Report| report.held.as_ref().and_then(|held| held.remaining);
    assert!(inspection.nodes.iter().all(|(_, report)| remaining(report.as_ref().unwrap()).is_some()), "{inspection:?}");
}

/// With this key template, the key of a vote looks like a key of another program. A fenced lock also has a
/// `quorlock~fence:` key, but a plain lock does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_prefix_only_locks_with_other_quorlock_keys_are_listed() {
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct_builder().key_template("{name}")).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let _read_lease = client.rw("shared").read().acquire().await.unwrap();
    let _plain = client.lock("plain").plain().acquire().await.unwrap();
    client.lock("free again").acquire().await.unwrap().release().await.unwrap();
    cluster.servers[0].command(&["SET", "b", "data"]);
    assert_eq!(names(&client).await, ["a", "shared"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_listed_with_a_key_template_that_has_a_suffix() {
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct_builder().key_template("{name}:lock")).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let _plain = client.lock("plain").plain().acquire().await.unwrap();
    cluster.servers[0].command(&["SET", "b", "data"]);
    assert_eq!(names(&client).await, ["a", "plain"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_scans_the_keys_in_many_small_steps() {
    let cluster = ProxiedCluster::start(1).await;
    let client = impatient_client(&cluster).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    let fill_script = "for i = 1, 20000 do redis.call('SET', 'other:' .. i, 'data') end";
    cluster.servers[0].command(&["EVAL", fill_script, "0"]);
    assert_eq!(names(&client).await, ["a"]);
    let stats = cluster.servers[0].command(&["INFO", "commandstats"]);
    let scans = stats.as_str().unwrap().lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    let scans: u32 = scans.unwrap().split(',').next().unwrap().parse().unwrap();
    assert!(scans >= 20, "{scans} scan commands for 20000 keys");
    assert!(!stats.as_str().unwrap().contains("cmdstat_keys:"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_names_an_unreachable_node_and_still_has_all_locks() {
    let cluster = ProxiedCluster::start(3).await;
    let client = impatient_client(&cluster).await;
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

/// Adds `free_names` fences of free names, and `held_names` votes of held names, to a server.
fn add_names(server: &quorlock_testkit::RedisServer, free_names: usize, held_names: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'quorlock~fence:quorlock:free/' .. i, '1 x 1', 'EX', 86400) end \
         for i = 1, tonumber(ARGV[2]) do redis.call('SET', 'quorlock:held/' .. i, string.format('%032x', i), 'EX', 3600) end";
    server.command(&["EVAL", script, "0", &free_names.to_string(), &held_names.to_string()]);
}

/// How often a server has executed a command.
fn call_count(server: &quorlock_testkit::RedisServer, command: &str) -> usize {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls = stats.as_str().unwrap().split(&format!("cmdstat_{command}:calls=")).nth(1);
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_needs_few_commands_for_free_names() {
    const HELD: usize = 100;
    let cluster = ProxiedCluster::start(1).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    add_names(&cluster.servers[0], 42_000, HELD);
    let calls_before = call_count(&cluster.servers[0], "evalsha");
    assert_eq!(names(&client).await.len(), HELD);
    let searches = call_count(&cluster.servers[0], "evalsha") - calls_before - HELD;
    assert!(searches <= 12, "{searches} search commands");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_reads_few_names_of_many() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    for server in &cluster.servers {
        add_names(server, 0, 12_000);
    }
    let calls_before = call_count(&cluster.servers[0], "evalsha");
    let page = client.list_page(&Filter::default().limit(1), "").await.unwrap();
    assert_eq!(page.names.len(), 1);
    assert!(page.next.is_some());
    let commands = call_count(&cluster.servers[0], "evalsha") - calls_before;
    assert!(commands <= 2, "{commands} commands for one search and one inspection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_has_all_names_although_one_node_denies_the_search() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let _lease = client.lock("a").acquire().await.unwrap();
    cluster.servers[0].command(&["ACL", "SETUSER", "default", "-scan"]);
    let page = client.list_page(&Filter::default(), "").await.unwrap();
    assert_eq!(page.missing.len(), 1, "{page:?}");
    assert_eq!(page.names.len(), 1, "{page:?}");
    cluster.servers[1].command(&["ACL", "SETUSER", "default", "-scan"]);
    // This position says that one node failed on an earlier page.
    let error = client.list_page(&Filter::default(), "1 1 0 ").await.unwrap_err();
    assert!(
        matches!(error, ReadError::NoQuorum { .. }),
        "the node that failed on an earlier page does not count: {error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_a_listing_have_every_name_once() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    for server in &cluster.servers {
        add_names(server, 3_000, 3_000);
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
    let mut expected: Vec<String> = (1..=3_000).map(|number| format!("held/{number}")).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
    let error = client.list_page(&Filter::default(), "elsewhere").await.unwrap_err();
    assert_eq!(error, ReadError::InvalidCursor);
}
