//! `quorlock doctor`: finds problems that the tests create on real servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{User, start_cluster, stderr, stdout};
use quorlock_testkit::{Aof, Clock, RedisServer, eventually};
use serde_json::Value;

/// The report of `quorlock doctor --json`, and its exit code.
struct Report {
    code: i32,
    json: Value,
}

impl Report {
    fn for_nodes(user: &User, nodes: &str) -> Self {
        Self::with_flags(user, &["--nodes", nodes])
    }

    fn with_flags(user: &User, flags: &[&str]) -> Self {
        let output = user.run(&[&["doctor", "--json"], flags].concat());
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
        assert_eq!(json["v"], 1);
        Self { code: output.status.code().unwrap(), json }
    }

    fn findings(&self) -> Vec<String> {
        let nodes = self.json["nodes"].as_array().unwrap().iter();
        let lists = nodes.map(|node| &node["findings"]).chain([&self.json["findings"]]);
        let line = |finding: &Value| {
            let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {} -> {}", part("severity"), part("topic"), part("text"), part("advice"))
        };
        lists.flat_map(|list| list.as_array().unwrap().iter().map(line)).collect()
    }

    /// Checks the exit code, and that one finding starts with this severity and topic and contains these texts.
    #[track_caller]
    fn assert_finds(&self, code: i32, severity_and_topic: &str, texts: &[&str]) {
        let findings = self.findings();
        let is_expected =
            |line: &String| line.starts_with(severity_and_topic) && texts.iter().all(|text| line.contains(text));
        assert!(findings.iter().any(is_expected), "no {severity_and_topic:?} with {texts:?} in {findings:#?}");
        assert_eq!(self.code, code, "{findings:#?}");
    }

    fn node(&self, node: usize) -> &Value {
        &self.json["nodes"][node]
    }
}

fn urls(servers: &[RedisServer]) -> String {
    servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

#[test]
fn a_healthy_cluster_has_no_errors() {
    let user = User::new();
    let (_servers, nodes) = start_cluster(&user, 3);
    let report = Report::for_nodes(&user, &nodes);
    let problems: Vec<String> =
        report.findings().into_iter().filter(|line| !line.starts_with("ok") && !line.starts_with("note")).collect();
    assert_eq!(problems, Vec::<String>::new());
    report.assert_finds(0, "ok quorum", &["3 of 3 nodes can vote, and 2 are a majority: 1 may fail"]);
    report.assert_finds(0, "ok access", &["all commands that locks need"]);
    report.assert_finds(0, "note persistence", &["appendonly no", "quarantined for 66s"]);
    for (node, url) in nodes.split(',').enumerate() {
        let node = report.node(node);
        assert_eq!((&node["state"], &node["node"]), (&Value::from("voting"), &Value::from(url)));
        assert!(node["round_trip_ms"].as_f64().unwrap() > 0.0 && node["skew_ms"].is_number(), "{node}");
        assert!(node["clock_rate_ppm"].is_number() && node["server"].as_str().unwrap().contains(' '), "{node}");
    }
    let output = user.run(&["doctor", "--nodes", &nodes]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with("redis://127.0.0.1:") && text.ends_with("no errors, no warnings\n"), "{text}");
    assert_eq!(stdout(&user.run(&["doctor", "-q", "--nodes", &nodes])), "");
}

#[test]
fn a_quiet_doctor_prints_only_errors_and_warnings() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[1].command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let text = stdout(&user.run(&["doctor", "-q", "--nodes", &nodes]));
    assert!(text.contains("  error    its maxmemory-policy is allkeys-lru"), "{text}");
    assert!(text.contains(&servers[1].url()) && !text.contains(&servers[0].url()), "{text}");
    for hidden_text in ["  ok  ", "  note  ", "no warnings", " errors"] {
        assert!(!text.contains(hidden_text), "{hidden_text:?} is in: {text}");
    }
}

#[test]
fn doctor_changes_nothing() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let report = Report::for_nodes(&user, &urls(&servers));
    report.assert_finds(0, "note life", &["the nodes are new", "66s later", "quorlock nodes init --yes"]);
    for server in &servers {
        assert_eq!(server.keys("*"), Vec::<String>::new());
    }
    let _ = Report::with_flags(&user, &[]);
    assert!(std::fs::read_dir(user.home.path()).unwrap().next().is_none(), "the doctor created a file");
}

#[test]
fn unreachable_nodes_are_found() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[2].kill();
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(69, "error reach", &["it cannot be reached", "refused", "start the server"]);
    report.assert_finds(69, "warning quorum", &["2 of 3 nodes can vote", "no more may fail"]);
    assert_eq!(report.node(2)["state"], "unreachable");
    servers[1].kill();
    Report::for_nodes(&user, &nodes).assert_finds(69, "error quorum", &["1 of 3 nodes can vote", "nobody gets a lock"]);
}

#[test]
fn an_eviction_policy_is_found() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[1].command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    Report::for_nodes(&user, &nodes).assert_finds(
        78,
        "error memory",
        &["allkeys-lru", "CONFIG SET maxmemory-policy noeviction"],
    );
}

#[test]
fn a_server_out_of_memory_is_found() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[0].command(&["CONFIG", "SET", "maxmemory", "1"]);
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(78, "error memory", &["its memory is full"]);
    report.assert_finds(78, "warning memory", &["it uses", "raise maxmemory"]);
}

#[test]
fn a_replica_is_found_with_its_master() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let port = servers[0].port().to_string();
    servers[2].command(&["REPLICAOF", "127.0.0.1", &port]);
    eventually("the replica is synchronized", || {
        let info = servers[2].command(&["INFO", "replication"]);
        info.as_str().is_some_and(|text| text.contains("master_link_status:up"))
    });
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(78, "error server", &[&format!("it is a replica of 127.0.0.1:{port}"), "REPLICAOF NO ONE"]);
    report.assert_finds(78, "error server", &["shares its replication id with", &servers[0].url()]);
    report.assert_finds(78, "note server", &["it has 1 replica"]);
}

#[test]
fn a_server_that_is_listed_under_two_addresses_is_found() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let (first_url, other_address) = (servers[0].url(), servers[0].url().replace("127.0.0.1", "localhost"));
    let nodes_with_duplicate = nodes.replace(&servers[2].url(), &other_address);
    Report::for_nodes(&user, &nodes_with_duplicate).assert_finds(
        78,
        "error server",
        &["the same server as", &first_url, "list every server once"],
    );
}

#[test]
fn a_wrong_password_is_found_and_not_shown() {
    let user = User::new();
    let servers = RedisServer::builder().password("correct-horse").start_many(3);
    let wrong_urls = urls(&servers).replace("correct-horse", "battery-staple");
    Report::for_nodes(&user, &wrong_urls).assert_finds(77, "error access", &["WRONGPASS"]);
    Report::for_nodes(&user, &urls(&servers).replace(":correct-horse@", "")).assert_finds(
        77,
        "error access",
        &["NOAUTH"],
    );
    for flag in ["--json", "-v"] {
        let output = user.run(&["doctor", flag, "--nodes", &wrong_urls]);
        assert!(!format!("{}{}", stdout(&output), stderr(&output)).contains("battery-staple"));
    }
}

/// Returns the Redis command that creates the user with the documented permissions.
fn documented_acl() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rules = text.lines().filter_map(|line| line.strip_prefix("user ")).find(|rules| rules.starts_with("quorlock "));
    let rules = rules.expect("the documentation lists the permissions of the user");
    ["ACL", "SETUSER"].into_iter().chain(rules.split(' ')).map(str::to_owned).collect()
}

/// Returns the server's URL for the documented user.
fn url_of_user(server: &RedisServer) -> String {
    server.url().replace("redis://", "redis://quorlock:PASSWORD@")
}

/// Creates the documented user on all servers, with changes of its permissions. Returns the URLs for that user.
fn create_user(servers: &[RedisServer], changes: &[&str]) -> String {
    for server in servers {
        let words = documented_acl();
        let words: Vec<&str> = words.iter().map(String::as_str).chain(changes.iter().copied()).collect();
        assert_eq!(server.command(&words).as_str(), Some("OK"), "{words:?}");
    }
    servers.iter().map(url_of_user).collect::<Vec<_>>().join(",")
}

#[test]
fn the_documented_user_has_all_permissions() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let nodes = create_user(&servers, &[]);
    let init = user.run(&["nodes", "init", "--yes", "--nodes", &nodes]);
    assert!(init.status.success(), "{}", stderr(&init));
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(0, "ok access", &["all commands that locks need"]);
    assert_eq!(report.json["worst"], "note", "{:#?}", report.findings());
    let run = user.run(&["run", "job", "--nodes", &nodes, "--", "true"]);
    assert!(run.status.success(), "{}", stderr(&run));
}

#[test]
fn missing_permissions_are_found() {
    let user = User::new();
    let servers = RedisServer::start_many(3);
    let report = |changes: &[&str]| Report::for_nodes(&user, &create_user(&servers, changes));
    report(&["-evalsha"]).assert_finds(77, "error access", &["run evalsha", "+evalsha"]);
    report(&["-script"]).assert_finds(77, "error access", &["run script load", "+script|load"]);
    report(&["-info"]).assert_finds(77, "error access", &["run info"]);
    report(&["-hset", "-hdel"]).assert_finds(77, "error access", &["run hdel, hset", "+hdel +hset"]);
    report(&["-client|tracking"]).assert_finds(
        0,
        "warning access",
        &["does not permit CLIENT TRACKING", "+client|tracking"],
    );
    report(&["-scan"]).assert_finds(0, "warning access", &["cannot be listed", "+scan"]);
    report(&["resetkeys", "~quorlock~*"]).assert_finds(77, "error access", &["touch keys of locks", "~quorlock:*"]);
    report(&["resetkeys", "~quorlock:*"]).assert_finds(77, "error access", &["the node's own keys quorlock~epoch"]);
    report(&["-type"]).assert_finds(0, "note access", &["the type of their key", "+type"]);
    report(&["-pubsub"]).assert_finds(0, "warning access", &["does not permit PUBSUB NUMSUB", "+pubsub|numsub"]);
    report(&["resetchannels"]).assert_finds(0, "warning access", &["hints", "&quorlock~*"]);
    report(&["-config"]).assert_finds(0, "note access", &["does not permit CONFIG GET", "+config|get"]);
}

#[test]
fn constants_that_differ_from_the_clusters_are_found() {
    let user = User::new();
    let (_servers, nodes) = start_cluster(&user, 3);
    let report = Report::with_flags(&user, &["--nodes", &nodes, "--max-ttl", "2m"]);
    report.assert_finds(78, "error constants", &["max_ttl is 60s on the node and 120s here", "nodes reconfigure"]);
    let (other_servers, _) = start_cluster(&user, 3);
    let mixed_nodes = format!("{},{}", nodes.rsplit_once(',').unwrap().0, other_servers[0].url());
    Report::for_nodes(&user, &mixed_nodes).assert_finds(78, "error constants", &["another cluster"]);
}

#[test]
fn a_restarted_node_is_found_before_and_during_its_quarantine() {
    let user = User::new();
    let servers = RedisServer::builder().aof(Aof::Always).start_many(3);
    let nodes = urls(&servers);
    assert!(user.run(&["nodes", "init", "--yes", "--nodes", &nodes]).status.success());
    Report::for_nodes(&user, &nodes).assert_finds(
        0,
        "ok persistence",
        &["appendfsync always", "still quarantined after a restart"],
    );
    servers[1].restart();
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(0, "warning life", &["lost its memory", "quarantined for 66s", "nodes wait"]);
    assert_eq!(report.node(1)["state"], "restarted");
    // A client of the cluster notices the restart.
    eventually("a client notices the restart", || {
        user.run(&["run", "job", "--nodes", &nodes, "--", "true"]);
        Report::for_nodes(&user, &nodes).node(1)["state"] == "quarantined"
    });
    let report = Report::for_nodes(&user, &nodes);
    report.assert_finds(0, "warning life", &["lost its memory, and may vote in", "quorlock nodes wait"]);
    report.assert_finds(0, "note life", &["restarted once"]);
    let left_ms = report.node(1)["quarantine_left_ms"].as_u64().unwrap();
    assert!((1..=66_000).contains(&left_ms), "{left_ms}");
}

#[test]
fn a_skewed_clock_is_found() {
    let user = User::new();
    let clock = Clock::new();
    let mut servers = RedisServer::start_many(2);
    servers.push(RedisServer::builder().clock(&clock).start());
    let nodes = urls(&servers);
    assert!(user.run(&["nodes", "init", "--yes", "--nodes", &nodes]).status.success());
    for (offset, code, kind, text) in [
        (-20_000_000, 78, "error clock", "20s behind the median"),
        (20_000_000, 78, "error clock", "20s ahead of the median"),
        (2_000_000, 0, "warning clock", "2.0s ahead of the median"),
    ] {
        clock.set_offset_micros(offset);
        Report::for_nodes(&user, &nodes).assert_finds(code, kind, &[text]);
    }
}

#[test]
fn a_stopped_clock_is_found() {
    let user = User::new();
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    clock.freeze_at_micros(i64::try_from(now.as_micros()).unwrap());
    let report = Report::for_nodes(&user, &server.url());
    report.assert_finds(78, "error clock", &["its clock runs -", "more than the drift allowance of 10 %"]);
    // The two reads of the clock take time, so the report states a precision. The reported rate must be right
    // within this precision.
    let finding = report.findings().into_iter().find(|line| line.starts_with("error clock")).unwrap();
    let number_after = |text: &str| -> f64 {
        let (_, rest) = finding.split_once(text).unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    let (rate, precision) = (number_after("its clock runs "), number_after("(within "));
    let rounding = 0.01;
    assert!((rate + 100.0).abs() <= precision + rounding, "{finding}");
}

#[test]
fn an_even_number_of_nodes_is_found() {
    let user = User::new();
    let servers = RedisServer::start_many(4);
    Report::for_nodes(&user, &urls(&servers[..2])).assert_finds(
        78,
        "error settings",
        &["two nodes tolerate no failure"],
    );
    Report::for_nodes(&user, &urls(&servers)).assert_finds(
        0,
        "warning quorum",
        &["4 nodes tolerate no more failures than 3", "odd"],
    );
}

#[test]
fn the_persistence_of_a_single_node_is_judged_more_strictly() {
    let user = User::new();
    for (server, code, kind, text) in [
        (RedisServer::start(), 0, "warning persistence", "a restart loses all votes"),
        (RedisServer::builder().rdb().start(), 0, "warning persistence", "only snapshots"),
        (RedisServer::builder().aof(Aof::Everysec).start(), 0, "warning persistence", "the last second's votes"),
        (RedisServer::builder().aof(Aof::Always).start(), 0, "ok persistence", "keeps every vote"),
    ] {
        Report::for_nodes(&user, &server.url()).assert_finds(code, kind, &[text]);
    }
}

#[test]
fn an_invalid_url_is_found_and_the_other_nodes_are_examined() {
    let user = User::new();
    let servers = RedisServer::start_many(2);
    let report = Report::for_nodes(&user, &format!("{},http://elsewhere", urls(&servers)));
    report.assert_finds(78, "error settings", &["its scheme is unknown: use redis://"]);
    assert_eq!(report.node(0)["state"], "blank");
    assert_eq!(report.node(2)["node"], "http://elsewhere");
}

#[test]
fn the_local_file_is_examined() {
    let user = User::new();
    Report::with_flags(&user, &[]).assert_finds(0, "note file", &["does not exist yet"]);
    assert!(user.run(&["run", "job", "--", "true"]).status.success());
    let report = Report::with_flags(&user, &[]);
    report.assert_finds(0, "ok file", &["locks.db", "bytes on", "journal mode wal"]);
    assert_eq!(report.node(0)["state"], "voting");
    assert!(report.node(0)["server"].as_str().unwrap().starts_with("SQLite 3."));
}

#[test]
fn paths_that_cannot_have_a_file_of_locks_are_found() {
    let user = User::new();
    let plain_file = user.home.path().join("blocked");
    std::fs::write(&plain_file, "not a directory").unwrap();
    let url_below_file = format!("sqlite:{}", plain_file.join("locks.db").display());
    Report::for_nodes(&user, &url_below_file).assert_finds(78, "error settings", &["it is not a directory"]);
    let text_file = user.home.path().join("text.db");
    std::fs::write(&text_file, "x".repeat(1_000)).unwrap();
    Report::for_nodes(&user, &format!("sqlite:{}", text_file.display())).assert_finds(
        78,
        "error settings",
        &["not an SQLite database"],
    );
    let read_only_folder = user.home.path().join("locked");
    std::fs::create_dir(&read_only_folder).unwrap();
    std::fs::set_permissions(&read_only_folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write anywhere.
    if std::fs::write(read_only_folder.join("probe"), "").is_err() {
        let report = Report::for_nodes(&user, &format!("sqlite:{}", read_only_folder.join("locks.db").display()));
        report.assert_finds(78, "error settings", &["no file can be created in it"]);
    }
}

#[test]
fn a_frozen_server_does_not_block_the_doctor() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    servers[0].freeze();
    let report = Report::for_nodes(&user, &nodes);
    servers[0].thaw();
    report.assert_finds(69, "error reach", &["no answer within"]);
}

#[test]
fn colours_are_printed_only_on_request() {
    let user = User::new();
    let server = RedisServer::start();
    let run = |color: &str| user.run(&["doctor", "--color", color, "--nodes", &server.url()]);
    assert!(stdout(&run("always")).contains("\u{1b}[32m") && !stdout(&run("auto")).contains('\u{1b}'));
}
