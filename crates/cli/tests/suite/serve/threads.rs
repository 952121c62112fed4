//! However many threads talk with callers, and wherever the nodes are asked from: it is one service.

use std::thread;

use quorlock_testkit::eventually;
use serde_json::json;

use super::service::{LONG, LONG_MS, Service, agent, answer, cluster_with, patiently};
use crate::common::User;

/// One, one beside that of the nodes, and some beside those of the nodes.
const COUNTS: [usize; 3] = [1, 2, 3];

/// Those beside the first thread of the process, by their name.
fn named(service: &Service, wanted: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", service.child.id())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == wanted).count()
}

#[test]
fn there_are_as_many_threads_as_were_asked_for() {
    let user = User::new();
    for count in COUNTS {
        let service = Service::with(&user, &["--threads", &count.to_string()]);
        service.get("/healthz").expect(200);
        // With few, the first of the process is one of them.
        let is_one = usize::from(count <= 2);
        assert_eq!(named(&service, "connections"), count - is_one, "of {count}");
        assert_eq!(named(&service, "looks"), 1);
    }
}

#[test]
fn callers_on_every_thread_share_the_locks() {
    const CALLERS: usize = 7;
    let user = User::new();
    let (_servers, nodes) = cluster_with(&user, 3, &LONG);
    for count in COUNTS {
        let service =
            Service::with(&user, &[&["--nodes", &nodes, "--threads", &count.to_string()][..], &LONG].concat());
        let granted = service.lock(&json!({"name": "a", "ttl_ms": LONG_MS})).expect(201);
        let turn = || {
            // A connection of its own.
            let agent = agent(None);
            let ask = json!({"name": "a", "ttl_ms": LONG_MS, "wait_ms": 600_000});
            let granted = patiently(|| answer(agent.post(service.url("/v1/leases")).send_json(&ask))).expect(201);
            service.release(&granted);
            granted.number("fence")
        };
        thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(turn)).collect();
            eventually("all of them wait", || service.status("a")["waiting"] == CALLERS);
            service.release(&granted);
            let mut fences: Vec<u64> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
            fences.sort_unstable();
            fences.dedup();
            assert_eq!(fences.len(), CALLERS, "a fence for each");
        });
    }
}
