//! `quorlock status`: the holder of a name, node by node.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use quorlock_testkit::eventually;
use serde_json::Value;

use crate::common::{User, assert_fails, start_cluster, stdout};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_free_lock_is_shown_as_free() {
    let user = User::new();
    let output = user.run(&["status", "a"]);
    assert!(output.status.success());
    assert!(stdout(&output).starts_with("a is free\nNODE "), "{}", stdout(&output));
    let lock = json(&stdout(&user.run(&["status", "a", "--json"])));
    assert_eq!((&lock["v"], &lock["name"], &lock["held"]), (&1.into(), &"a".into(), &false.into()));
    assert_eq!((&lock["holder"], &lock["fence"], &lock["waiting"]), (&Value::Null, &Value::Null, &0.into()));
}

#[test]
fn a_lock_of_another_program_is_shown_with_the_type_of_its_key() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 1);
    servers[0].command(&["HSET", "quorlock:a", "5c4e:1", "1"]);
    let status = stdout(&user.run(&["status", "a", "--nodes", &nodes]));
    assert!(status.starts_with("a is held by another program (key type hash)\n"), "{status}");
}

#[test]
fn a_held_lock_is_shown_with_its_holder_on_every_node_and_its_waiters() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let node_flags = ["--nodes", nodes.as_str()];
    let holder = user.hold(&["run", "a", "--label", "backup", "--nodes", &nodes]);
    let mut waiter = user.quorlock(&["run", "a", "--wait", "60s", "--nodes", &nodes, "--", "true"]).spawn().unwrap();
    let status = || json(&stdout(&user.run(&[&["status", "a", "--json"], &node_flags[..]].concat())));
    eventually("every node reports the holder and the waiter", || {
        let lock = status();
        let nodes = lock["nodes"].as_array().unwrap();
        lock["held"] == true && nodes.iter().all(|node| node["held"] == true && node["waiting"] == 1)
    });
    let lock = status();
    assert_eq!((&lock["holder"]["label"], &lock["waiting"]), (&"backup".into(), &1.into()));
    assert!(lock["fence"].as_u64().unwrap() > 0);
    for node in lock["nodes"].as_array().unwrap() {
        assert_eq!((&node["fence"], &node["holds"], &node["trouble"]), (&lock["fence"], &1.into(), &Value::Null));
        assert!(node["left_ms"].as_u64().unwrap() > 0 && node["since_ms"].as_u64().unwrap() > 0, "{node}");
    }
    let text = stdout(&user.run(&[&["status", "a"], &node_flags[..]].concat()));
    let first_line = text.lines().next().unwrap();
    assert!(first_line.starts_with("a is held by ") && first_line.contains("backup) for "), "{first_line}");
    assert!(first_line.contains("; its lease ends in ") && first_line.ends_with("; 1 waits"), "{first_line}");
    assert_eq!(text.matches(", backup)").count(), 4, "{text}");
    assert!(text.lines().last().unwrap().starts_with("1st in the queue for "), "{text}");
    let queue = lock["queue"].as_array().unwrap();
    assert_eq!((queue.len(), &queue[0]["shared"]), (1, &false.into()), "{lock}");
    assert!(queue[0]["since_ms"].as_u64().unwrap() > 0, "{lock}");
    servers[0].kill();
    let text = stdout(&user.run(&[&["status", "a"], &node_flags[..]].concat()));
    assert!(text.contains("unreachable"), "{text}");
    servers[1].kill();
    assert_fails(&user.run(&[&["status", "a"], &node_flags[..]].concat()), 69, "no quorum for inspecting \"a\"");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    drop(holder);
}

#[test]
fn holders_of_a_shared_lock_and_used_slots_are_counted() {
    let user = User::new();
    let status = |name| stdout(&user.run(&["status", name]));
    for _ in 0..2 {
        assert!(user.run(&["acquire", "doc", "--shared"]).status.success());
        assert!(user.run(&["acquire", "pool", "--slots", "3"]).status.success());
    }
    assert!(status("doc").lines().next().unwrap().contains(", shared by 2"), "{}", status("doc"));
    assert!(status("pool").lines().next().unwrap().contains(", 2 of 3 slots"), "{}", status("pool"));
}

#[test]
fn a_name_cannot_move_the_cursor() {
    let user = User::new();
    let name = "evil\u{1b}[2J";
    assert!(user.run(&["acquire", name, "--label", name]).status.success());
    for command in [&["status", name][..], &["list"], &["list", "-v"]] {
        let text = stdout(&user.run(command));
        assert!(text.contains("evil") && !text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn an_invalid_name_is_an_error() {
    let user = User::new();
    assert_fails(&user.run(&["status", ""]), 64, "a name must not be empty");
}
