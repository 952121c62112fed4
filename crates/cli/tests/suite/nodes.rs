//! `quorlock nodes`: shows, creates, waits for and reconfigures a cluster.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use crate::common::pty::Pty;
use crate::common::{User, assert_fails, start_cluster, stderr, stdout};
use quorlock_testkit::{Aof, Proxy, RedisServer, eventually};
use serde_json::Value;

/// Constants with which a quarantine takes 1.1 s.
const SHORT_CONSTANTS: [&str; 6] = ["--max-ttl", "1s", "--max-clock-skew", "200ms", "--max-clock-step-back", "200ms"];

fn json(user: &User, arguments: &[&str]) -> Value {
    let output = user.run(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

#[test]
fn the_table_has_a_row_for_each_node() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[2].kill();
    let output = user.run(&["nodes", "--nodes", &nodes]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0].join(" "), "NODE STATE ROUND TRIP EPOCH MAY VOTE IN SKEW");
    assert_eq!((rows.len(), rows[1][0], rows[1][1]), (4, servers[0].url().as_str(), "voting"), "{text}");
    assert!(rows[1][2].ends_with("ms") && rows[1][3].len() == 8, "{text}");
    assert_eq!(rows[3][1..], ["unreachable", "-", "-", "-", "-"], "{text}");
    assert!(stderr(&output).contains("refused"), "{}", stderr(&output));
    servers[1].kill();
    assert_eq!(user.run(&["nodes", "--nodes", &nodes]).status.code(), Some(69), "only one of three nodes answers");
}

#[test]
fn the_json_output_has_the_state_of_every_node() {
    let user = User::new();
    let (_servers, nodes) = start_cluster(&user, 3);
    let listed = json(&user, &["nodes", "--nodes", &nodes]);
    assert_eq!((&listed["v"], &listed["majority"], &listed["voting"]), (&1.into(), &2.into(), &3.into()));
    let node = &listed["nodes"][0];
    assert_eq!((&node["state"], &node["restarts"]), (&"voting".into(), &0.into()));
    assert!(node["round_trip_ms"].is_number() && node["skew_ms"].is_number(), "{node}");
    assert_eq!(node["epoch"].as_str().unwrap().len(), 8);
}

#[test]
fn without_a_terminal_init_needs_yes() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let nodes = urls(&servers);
    assert_fails(&user.run(&["nodes", "init", "--nodes", &nodes]), 64, "quorlock nodes init --yes");
    assert!(servers.iter().all(|server| server.keys("*").is_empty()), "nothing was changed");
    let result = json(&user, &["nodes", "init", "--yes", "--nodes", &nodes]);
    assert_eq!((&result["v"], &result["nodes"]), (&1.into(), &3.into()));
    let run = user.run(&["run", "job", "--nodes", &nodes, "--", "true"]);
    assert!(run.status.success(), "{}", stderr(&run));
}

#[test]
fn on_a_terminal_init_asks_for_a_typed_word() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let init = user.quorlock(&["nodes", "init", "--nodes", &urls(&servers)]);
    let mut pty = Pty::spawn(&init);
    pty.wait_for_text("type yes:");
    pty.type_keys(b"no\n");
    assert_eq!(pty.wait().code(), Some(64));
    assert!(servers.iter().all(|server| server.keys("*").is_empty()), "nothing was changed");
    let mut pty = Pty::spawn(&init);
    pty.wait_for_text("type yes:");
    pty.type_keys(b"yes\n");
    assert!(pty.wait().success());
    pty.wait_for_text("3 nodes can vote, as one new cluster");
}

#[test]
fn on_a_terminal_wait_shows_the_remaining_time() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let wait = user.quorlock(&[&["nodes", "wait"], &SHORT_CONSTANTS[..], &["--nodes", &urls(&servers)]].concat());
    let mut pty = Pty::spawn(&wait);
    pty.wait_for_text("can vote in");
    assert!(pty.wait().success());
    pty.wait_for_text("3 nodes can vote");
    assert!(!pty.text().contains("can vote in"), "{}", pty.text());
}

#[test]
fn a_run_with_a_wait_waits_for_a_new_cluster() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let constants = ["--max-ttl", "4s", "--max-clock-skew", "500ms", "--max-clock-step-back", "500ms"];
    let run = ["run", "job", "--wait", "60s", "--ttl", "4s", "--kill-grace", "100ms"];
    let output = user.run(&[&run[..], &constants, &["--nodes", &urls(&servers), "--", "echo", "done"]].concat());
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"), "{}", stderr(&output));
    assert!(stderr(&output).contains("3 of 3 nodes are new"), "{}", stderr(&output));
}

#[test]
fn a_new_cluster_reports_its_quarantine_and_how_to_skip_it() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let output = user.run(&["run", "job", "--no-wait", "--nodes", &urls(&servers), "--", "true"]);
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    let text = stderr(&output);
    let line = text.lines().find(|line| line.contains("quorlock nodes init --yes")).expect(&text);
    assert!(line.contains("can vote in 1m0"), "{line}");
    let quiet_run = user.run(&["run", "job", "-q", "--no-wait", "--nodes", &urls(&servers), "--", "true"]);
    assert!(!stderr(&quiet_run).contains("can vote in 1m0"), "{}", stderr(&quiet_run));
}

#[test]
fn wait_waits_for_quarantined_and_unreachable_nodes() {
    let user = User::new();
    let servers = RedisServer::start_many(5);
    let nodes = urls(&servers);
    let run_with_constants = |command: &[&str]| user.run(&[command, &SHORT_CONSTANTS, &["--nodes", &nodes]].concat());
    let first_wait = run_with_constants(&["nodes", "wait"]);
    assert!(first_wait.status.success(), "{}", stderr(&first_wait));
    assert_eq!(stdout(&first_wait), "5 nodes can vote\n");
    assert!(stderr(&first_wait).contains("can vote in"), "{}", stderr(&first_wait));
    let second_wait = run_with_constants(&["nodes", "wait"]);
    assert_eq!(
        (stdout(&second_wait).as_str(), stderr(&second_wait).as_str()),
        ("5 nodes can vote\n", ""),
        "a wait for voting nodes prints something else"
    );

    servers[0].restart_empty();
    servers[1].kill();
    let output = run_with_constants(&["nodes", "wait", "--timeout", "500ms"]);
    assert_fails(&output, 69, "of 5 nodes cannot vote after 500ms");
    assert!(stderr(&output).contains(&format!("  {}: unreachable", servers[1].url())), "{}", stderr(&output));

    let arguments = [&["nodes", "wait"], &SHORT_CONSTANTS[..], &["--nodes", &nodes]].concat();
    let mut waiting = user.quorlock(&arguments).spawn().unwrap();
    assert!(waiting.try_wait().unwrap().is_none(), "the wait ended although a node is unreachable");
    servers[1].restart_empty();
    assert!(waiting.wait().unwrap().success(), "the wait failed although the node came back");
}

/// No client stays connected for long, as if cron started every run.
#[test]
fn short_runs_end_the_quarantine_of_restarted_nodes() {
    let user = User::new();
    let servers = RedisServer::builder().aof(Aof::Always).start_many(3);
    let nodes = urls(&servers);
    // The quarantine is so long that no single run counts much of it.
    let constants = ["--max-ttl", "5s", "--max-clock-skew", "1s", "--max-clock-step-back", "1s"];
    let run_with_constants =
        |command: &[&str], rest: &[&str]| user.run(&[command, &constants, &["--nodes", &nodes], rest].concat());
    assert!(run_with_constants(&["nodes", "init", "--yes"], &[]).status.success());
    servers[1..].iter().for_each(RedisServer::restart);
    let mut times_left = Vec::new();
    eventually("a run gets the lock", || {
        let run = run_with_constants(&["run", "cron", "-n", "--ttl", "4s", "--kill-grace", "100ms"], &["--", "true"]);
        let text = stderr(&run);
        let listed = json(&user, &[&["nodes", "--nodes", &nodes][..], &constants].concat());
        times_left.extend(listed["nodes"][1]["quarantine_left_ms"].as_u64());
        assert!(run.status.success() || run.status.code() == Some(69), "{text}");
        let has_advice = text.contains("quorlock nodes wait") && !text.contains("init");
        assert!(run.status.success() || has_advice, "{text}");
        run.status.success()
    });
    assert!(times_left.is_sorted_by(|earlier, later| earlier >= later), "the time left has grown: {times_left:?}");
    assert!(times_left.len() > 1 && times_left.first() > times_left.last(), "the time left stays: {times_left:?}");
    assert!(user.home.path().join("quorlock/quarantine").is_dir());
}

#[test]
fn an_unusable_state_folder_is_named_during_a_quarantine() {
    const MESSAGE: &str = "the time between runs does not count: ";
    let user = User::new();
    let servers = RedisServer::builder().aof(Aof::Always).start_many(3);
    let nodes = urls(&servers);
    assert!(user.run(&["nodes", "init", "--yes", "--nodes", &nodes]).status.success());
    servers[1..].iter().for_each(RedisServer::restart);
    let file = user.home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = |arguments: &[&str], state_folder: Option<&Path>| {
        let mut command = user.quorlock(&[&["run", "a", "--nodes", &nodes], arguments].concat());
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        command.envs(state_folder.map(|state_folder| ("XDG_STATE_HOME", state_folder))).output().unwrap()
    };
    let path = file.join("quorlock/quarantine");
    let unusable_message = format!("{MESSAGE}cannot use {}: Not a directory", path.display());
    let unset_message = format!("{MESSAGE}neither XDG_STATE_HOME nor HOME names a state folder");
    for (state_folder, message) in [(Some(file.as_path()), unusable_message), (None, unset_message)] {
        for flags in [&["--no-wait"][..], &["--no-wait", "-q"], &["--wait", "10ms"]] {
            let output = run(&[flags, &["--", "true"]].concat(), state_folder);
            assert_fails(&output, 69, &message);
            assert!(!stderr(&output).contains("run this again"), "{}", stderr(&output));
        }
    }
    let output = run(&["--no-wait", "--", "true"], Some(user.home.path()));
    assert_fails(&output, 69, "run this again after that time");
    assert!(!stderr(&output).contains(MESSAGE), "{}", stderr(&output));
}

#[test]
fn init_refuses_while_a_node_has_a_lease() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let holder = user.hold(&["run", "nightly", "--nodes", &nodes]);
    let init = ["nodes", "init", "--yes", "--nodes", &nodes];
    let refused = user.run(&init);
    assert_fails(&refused, 75, "\"nightly\"");
    assert!(stderr(&refused).contains("--danger-discard-leases"), "{}", stderr(&refused));
    drop(holder);
    let init_works = || user.run(&init).status.success();
    eventually("the lease is over", init_works);

    // If the names of a node cannot be listed, the node may have a lease.
    servers[2].command(&["ACL", "SETUSER", "default", "-scan"]);
    let refused = user.run(&init);
    assert_fails(&refused, 75, "cannot list its names");
    assert!(stderr(&refused).contains(&servers[2].url()), "{}", stderr(&refused));
    assert!(user.run(&[&init[..], &["--danger-discard-leases"]].concat()).status.success());
}

#[test]
fn the_message_about_a_missing_quorum_names_the_unreachable_nodes() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[1..].iter().for_each(RedisServer::kill);
    let run = user.run(&["run", "job", "-n", "--nodes", &nodes, "--", "true"]);
    assert_fails(&run, 69, "2 of 3 nodes are unreachable");
    let doctor = user.run(&["doctor", "--nodes", &nodes]);
    for text in [stderr(&run), stdout(&doctor), stderr(&doctor)] {
        assert!(!text.contains("init") && !text.contains("unfit"), "{text}");
    }
    let text = stderr(&run);
    assert!(text.contains(&format!("{}  waiting: 2 of 3 nodes", servers[0].url())), "{text}");
    for server in &servers[1..] {
        assert!(text.contains(&format!("{}  unreachable", server.url())), "{text}");
    }
}

#[test]
fn reconfigure_changes_the_constants_after_a_quarantine() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let nodes = urls(&servers);
    let run_with_flags = |command: &[&str], flags: &[&str]| user.run(&[command, flags, &["--nodes", &nodes]].concat());
    let longer_constants = ["--max-ttl", "2s", "--max-clock-skew", "200ms", "--max-clock-step-back", "200ms"];
    assert_fails(
        &run_with_flags(&["nodes", "reconfigure", "--yes"], &longer_constants),
        78,
        "do not belong to a cluster yet",
    );
    assert!(run_with_flags(&["nodes", "init", "--yes"], &SHORT_CONSTANTS).status.success());
    assert_fails(&run_with_flags(&["nodes", "reconfigure"], &longer_constants), 64, "nodes reconfigure --yes");
    assert_fails(&run_with_flags(&["nodes", "wait"], &longer_constants), 78, "max_ttl of 2s");

    let output = run_with_flags(&["nodes", "reconfigure", "--yes"], &longer_constants);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("quorlock nodes wait"), "{}", stdout(&output));
    assert_fails(&run_with_flags(&["nodes", "wait"], &SHORT_CONSTANTS), 78, "max_ttl of 1s");
    let waited = run_with_flags(&["nodes", "wait"], &longer_constants);
    assert!(waited.status.success(), "{}", stderr(&waited));
    let listed = json(&user, &[&["nodes", "--nodes", &nodes][..], &longer_constants].concat());
    assert_eq!(listed["voting"], 3, "{listed}");
}

#[test]
fn a_single_node_is_reconfigured_at_once() {
    let user = User::new();
    let run = |max_ttl: &str| user.run(&["run", "job", "--max-ttl", max_ttl, "--", "true"]);
    assert!(run("60s").status.success());
    assert_fails(&run("2m"), 78, "max_ttl of 120s");
    let output = user.run(&["nodes", "reconfigure", "--max-ttl", "2m", "--yes"]);
    assert!(output.status.success() && stdout(&output).contains("can vote"), "{}", stderr(&output));
    eventually("the file votes with the new constants", || run("2m").status.success());
}

#[test]
fn the_node_deadline_can_be_raised_for_distant_nodes() {
    let (user, server) = (User::new(), RedisServer::start());
    let proxy = Proxy::start(server.addr());
    // A request that arrives late may still get a vote, so each run locks another name.
    let run = |deadline: &str, wait: &str| {
        let nodes = proxy.url();
        let flags = ["run", deadline, "--node-deadline", deadline, "--wait", wait, "--nodes", &nodes];
        user.run(&[&flags[..], &["--", "echo", "here"]].concat())
    };
    assert_eq!(stdout(&run("11s", "1m")), "here\n");
    proxy.delay(Duration::from_millis(300));
    let late_run = run("200ms", "0s");
    assert_eq!(late_run.status.code(), Some(69), "{}", stderr(&late_run));
    // On a busy machine even the handshake is late.
    assert!(
        ["no answer", "not connected yet"].iter().any(|why| stderr(&late_run).contains(why)),
        "{}",
        stderr(&late_run)
    );
    let output = run("10s", "1m");
    assert_eq!(stdout(&output), "here\n", "{}", stderr(&output));
    assert_fails(&run("16s", "0s"), 78, "at most half of the ttl");
}

#[test]
fn replicas_count_as_failed_nodes_and_are_named() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let run = ["run", "job", "--nodes", &nodes, "--", "true"];
    servers[1].command(&["REPLICAOF", "127.0.0.1", "1"]);
    let output = user.run(&run);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!("{} has no vote: it is a replica", servers[1].url())), "{text}");
    let doctor = user.run(&["doctor", "--nodes", &nodes]);
    assert!(!doctor.status.success() && stdout(&doctor).contains("it is a replica of"), "{}", stdout(&doctor));

    servers[2].command(&["REPLICAOF", "127.0.0.1", "1"]);
    let output = user.run(&run);
    // A reason that several nodes share is printed once.
    assert_fails(&output, 78, &format!("{}, {}: it is a replica", servers[1].url(), servers[2].url()));
    assert_fails(&user.run(&["run", "job", "--nodes", &servers[1].url(), "--", "true"]), 78, "it is a replica");
}
