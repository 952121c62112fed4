//! The log of a service on stderr.

use std::io::{BufRead, BufReader};

use quorlock_testkit::eventually;
use serde_json::{Value, json};

use super::service::Service;
use crate::common::{User, start_cluster};

#[test]
fn nodes_that_cannot_vote_are_named_at_the_start() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[1].kill();
    let service = Service::with_arguments(&user, &["--nodes", &nodes]);
    let warning = format!("1 of 3 nodes without a vote: {} unreachable: ", servers[1].url());
    eventually("the log names the node", || service.log().contains(&warning));
    service.get("/readyz").expect(200);

    // End the service that knows the cluster. It would report that the restarted nodes lost their memory, and would not
    // take them for new nodes.
    drop(service);
    servers[0].restart_empty();
    servers[2].restart_empty();
    servers[1].restart_empty();
    let new_service = Service::with_arguments(&user, &["--nodes", &nodes, "--log", "json"]);
    eventually("the log advises to run nodes init", || {
        new_service.log().contains("if no lock can be outstanding: quorlock nodes init --yes")
    });
    assert!(new_service.log().lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", new_service.log());
}

#[test]
fn the_workers_of_the_demo_do_not_fill_the_log() {
    let user = User::new();
    let service = Service::with_arguments(&user, &["--demo"]);
    eventually("a worker has lost its lock", || {
        let history = service.get("/v1/history?limit=1000").expect(200).body;
        history["events"].as_array().unwrap().iter().any(|event| event["what"] == "lost")
    });
    assert!(!service.log().contains("lease lost"), "{}", service.log());
}

#[test]
fn an_unread_log_drops_lines_and_does_not_block_the_service() {
    for (format, message) in [("text", "lines are missing here"), ("json", "\"missing_lines\":")] {
        let user = User::new();
        let (mut service, unread_log) = Service::with_unread_log(&user, &["--log", format]);
        // The log of these requests does not fit into the buffer of the pipe.
        for _ in 0..2_000 {
            service.get("/healthz").expect(200);
        }
        let granted = service.lock(&json!({"name": "a"})).expect(201);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(unread_log).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut lines = Vec::new();
        eventually("the log reports the missing lines", || {
            service.get("/healthz").expect(200);
            lines.extend(receiver.try_iter());
            lines.iter().any(|line| line.contains(message))
        });
        service.release(&granted);
        service.signal("TERM");
        assert!(service.child.wait().unwrap().success());
        lines.extend(receiver.iter());
        let is_whole = |line: &String| {
            let is_known = line.contains("answered") || line.contains(message) || line.contains("stopping");
            is_known && (format == "text" || serde_json::from_str::<Value>(line).is_ok())
        };
        let damaged: Vec<_> = lines.iter().filter(|line| !is_whole(line)).collect();
        assert!(damaged.is_empty(), "{damaged:?}");
    }
}
