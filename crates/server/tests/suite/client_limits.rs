//! The limits for each client, and many readers: their calls do not affect the holders of locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock_testkit::http::{Answer, agent, answer};
use quorlock_testkit::{RedisServer, eventually};
use serde_json::{Value, json};

use crate::service::{Nodes, Service};

/// Fills the history of a node with events of names that the tests do not use.
fn fill_history(server: &RedisServer, events: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do \
         redis.call('XADD', 'quorlock~history', '*', 'id', string.format('%016x', i), 'at', string.format('%d', i), \
         'name', 'other/' .. i % 100, 'what', 'granted', 'fence', '1', 'holder', '', 'mode', 'exclusive', 'reason', '') end";
    server.command(&["EVAL", script, "0", &events.to_string()]);
}

/// Returns how often the history of a server was read.
fn count_history_reads(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let calls =
        stats.as_str().unwrap().split("cmdstat_xrevrange:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Returns the value of a metric.
fn metric(service: &Service, name: &str) -> u64 {
    let text = service.get("/metrics").expect(200).body;
    let line = text.as_str().unwrap().lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
}

#[test]
fn a_holder_keeps_its_lease_and_the_nodes_are_read_once_a_second_despite_many_readers() {
    const READERS: usize = 50;
    const RENEWALS: usize = 8;
    /// A ttl that is much longer than the time between two renewals, and longer than a pause of a busy machine.
    const TTL_MS: u64 = 15_000;
    let nodes = Nodes::start_servers(3);
    for server in &nodes.servers {
        fill_history(server, 10_000);
    }
    let service = nodes.serve();
    let granted = service.lock(&json!({"name": "mine", "ttl_ms": TTL_MS})).expect(201);
    let (start, reads_before) = (Instant::now(), metric(&service, "quorlock_reads_total"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let agent = agent(None);
                while !is_over.load(Ordering::Relaxed) {
                    let read = answer(agent.get(service.url("/v1/history?name=x")).call());
                    assert!([200, 503].contains(&read.status), "{read:?}");
                }
            });
            scope.spawn(|| {
                let mut events = service.follow(None);
                while events.next().is_some() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        for _ in 0..RENEWALS {
            thread::sleep(Duration::from_secs(1));
            let renewed = service.post("/v1/leases/renew", &granted.lease());
            assert_eq!(renewed.status, 200, "the lease is lost: {renewed:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let reads = metric(&service, "quorlock_reads_total") - reads_before;
    let reads_max = 2 + start.elapsed().as_secs();
    assert!(reads <= reads_max, "{reads} reads of the nodes in {:?}", start.elapsed());
    // A read asks each node for the newest events once, and for older events at most twice.
    let history_reads = nodes.servers.iter().map(count_history_reads).max().unwrap();
    assert!(history_reads <= 3 * reads_max, "one node got {history_reads} reads of its history");
}

#[test]
fn replies_show_when_the_nodes_were_read() {
    let service = Service::start();
    service.lock(&json!({"name": "a"})).expect(201);
    let mut last_as_of = 0;
    for path in ["/v1/locks", "/v1/history", "/v1/locks/a"] {
        let as_of = service.get(path).expect(200).number("as_of");
        assert!(as_of > 0, "{path}");
        last_as_of = as_of;
    }
    eventually("the copy is read again", || service.get("/v1/locks/a").expect(200).number("as_of") > last_as_of);
}

#[test]
fn unknown_names_are_read_from_the_nodes_at_most_once_a_second() {
    const NAMES: u64 = 100;
    let nodes = Nodes::start_servers(1);
    let service = nodes.serve();
    service.get("/v1/locks").expect(200);
    let start = Instant::now();
    let replies: Vec<Answer> = (0..NAMES).map(|name| service.get_once(&format!("/v1/locks/free-{name}"))).collect();
    let reads = replies.iter().filter(|reply| reply.status == 200).count() as u64;
    assert!((1..=2 + start.elapsed().as_secs()).contains(&reads), "{reads} reads in {:?}", start.elapsed());
    let refused = replies.into_iter().find(|reply| reply.status != 200).unwrap().problem(429, "rate-limited");
    assert!(refused.number("retry_after_ms") <= 1_000, "{refused:?}");
}

#[test]
fn a_batch_counts_one_request_for_each_lease() {
    const BATCHES: u64 = 20;
    let service = Service::with_settings(|config| config.limits.requests_per_second = 1_000);
    let invalid_leases: Vec<Value> = (0..1_000).map(|_| json!({"name": "a", "lease_id": "invalid"})).collect();
    let start = Instant::now();
    let replies: Vec<Answer> =
        (0..BATCHES).map(|_| service.post_once("/v1/leases/renew", &json!({"leases": invalid_leases}))).collect();
    let accepted = replies.iter().filter(|reply| reply.status == 200).count() as u64;
    assert!(accepted <= 2 + start.elapsed().as_secs(), "{accepted} batches in {:?}", start.elapsed());

    let limited_service = Service::with_settings(|config| config.limits.requests_per_second = 2);
    let names = |count: usize| json!({"names": (0..count).map(|name| name.to_string()).collect::<Vec<_>>()});
    for (path, batch) in [("/v1/leases", names(3)), ("/v1/leases/release", json!({"leases": &invalid_leases[..3]}))] {
        let mut reply = limited_service.post_once(path, &batch);
        eventually("the rate limit allows another request", || {
            reply = limited_service.post_once(path, &batch);
            reply.status != 429
        });
        let refused = reply.problem(400, "invalid-request");
        let reason = "3 leases count as 3 requests, and the limit is 2 requests per second";
        assert!(refused.text("detail").contains(reason), "{refused:?}");
    }
}

#[test]
fn a_forged_lease_id_reaches_no_node() {
    let nodes = Nodes::start_servers(1);
    let service = nodes.serve();
    let foreign_service = Service::start();
    let granted = service.lock(&json!({"name": "a", "ttl_ms": 60_000})).expect(201);
    let unsigned_id = granted.text("lease_id").rsplit_once('.').unwrap().0.to_owned();
    let foreign_id = foreign_service.lock(&json!({"name": "b"})).expect(201).text("lease_id");
    let key_count = nodes.servers[0].command(&["DBSIZE"]);
    for (name, lease_id) in [("a", unsigned_id), ("b", foreign_id)] {
        for call in ["release", "renew"] {
            let path = format!("/v1/leases/{call}");
            service.post(&path, &json!({"name": name, "lease_id": lease_id})).problem(403, "not-holder");
        }
    }
    assert_eq!(nodes.servers[0].command(&["DBSIZE"]), key_count, "a request with a forged lease id must store nothing");
    let replica = nodes.serve();
    replica.post("/v1/leases/release", &granted.lease()).expect(204);
}

#[test]
fn new_names_are_limited_for_each_client() {
    let service = Service::with_settings(|config| config.limits.names = 3);
    let lock = |names: &[&str]| service.post_once("/v1/leases", &json!({"names": names}));
    let granted = lock(&["a", "b"]).expect(201);
    lock(&["c", "d"]).problem(429, "rate-limited");
    lock(&["c"]).expect(201);
    let refused = lock(&["d"]).problem(429, "rate-limited");
    assert!(refused.number("retry_after_ms") > 1_000 * 60 * 60, "{refused:?}");
    assert!(refused.text("detail").contains("3 different names in 24 hours"), "{refused:?}");
    let first_lease = &granted.body["leases"][0];
    let lease = json!({"name": first_lease["name"], "lease_id": first_lease["lease_id"]});
    service.post("/v1/leases/renew", &lease).expect(200);
    service.post("/v1/leases/release", &lease).expect(204);
    lock(&["a"]).expect(201);
}

#[test]
fn released_keys_are_limited_for_each_client() {
    let service = Service::with_settings(|config| config.limits.released_keys = 4);
    let key = |number: u32| format!("{number:022}");
    let release = |number| service.post_once("/v1/leases/release", &json!({"name": "a", "key": key(number)}));
    let granted = service.lock(&json!({"name": "b", "key": key(9)})).expect(201);
    release(1).expect(204);
    release(2).expect(204);
    let refused = release(3).problem(429, "rate-limited");
    assert!(refused.number("retry_after_ms") > 1_000, "the nodes must still remember the released keys: {refused:?}");
    service.post_once("/v1/leases/release", &granted.lease()).problem(429, "rate-limited");
    let without_key = service.lock(&json!({"name": "c"})).expect(201);
    service.release(&without_key);
}
