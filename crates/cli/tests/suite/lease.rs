//! `acquire`, `extend`, `release` and `check`: leases that scripts pass between processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use quorlock_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::common::place::Place;
use crate::common::{User, assert_fails, signal, stderr, stdout};

/// A file, one server, and three servers.
fn places() -> impl Iterator<Item = Place> {
    [Place::file, || Place::with_servers(1), Place::servers].into_iter().map(|place| place())
}

impl Place {
    fn output(&self, arguments: &[&str]) -> Output {
        self.quorlock(arguments).output().unwrap()
    }

    /// Acquires a lease, and returns its text.
    fn acquire(&self, arguments: &[&str]) -> String {
        let all: Vec<&str> = ["acquire"].iter().chain(arguments).copied().collect();
        let output = self.output(&all);
        assert!(output.status.success(), "{}", stderr(&output));
        let lease = stdout(&output).strip_suffix('\n').unwrap().to_owned();
        assert!(lease.starts_with("q1.") && !lease.contains(char::is_whitespace), "{lease}");
        lease
    }

    /// Runs with the lease in the environment.
    fn with(&self, lease: &str, arguments: &[&str]) -> Output {
        self.quorlock(arguments).env("QUORLOCK_LEASE", lease).output().unwrap()
    }

    /// Runs with the lease on stdin.
    fn fed(&self, lease: &str, arguments: &[&str]) -> Output {
        let mut child = self.quorlock(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{lease}\n").as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn shell(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        for (name, value) in self.quorlock(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(nodes) = self.flags.get(1) {
            command.env("QUORLOCK_NODES", nodes);
        }
        let folder = std::path::Path::new(env!("CARGO_BIN_EXE_quorlock")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).args(["-c", script]).output().unwrap()
    }

    /// The background processes that keep a lease of this user.
    fn keepers(&self) -> Vec<String> {
        let home = self.user.home.path().to_str().unwrap();
        let is_keeper = |pid: &String| {
            let of = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let of_ours = String::from_utf8_lossy(&of("environ")).contains(home);
            of("cmdline").starts_with(b"quorlock-keeper\0") && of_ours
        };
        let pids =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        pids.filter(is_keeper).collect()
    }
}

#[test]
fn a_lease_is_extended_checked_and_released_by_other_processes() {
    for place in places() {
        let lease = place.acquire(&["deploy", "--label", "us"]);
        assert_fails(&place.run_with_quorum(&["acquire", "deploy", "-n"]), 75, "deploy is held by");
        assert!(!place.is_free("deploy"));
        let extended = place.with(&lease, &["extend"]);
        assert!(extended.status.success(), "{}", stderr(&extended));
        assert!(stdout(&extended).starts_with("deploy is extended, for another 2"), "{}", stdout(&extended));
        let checked = place.fed(&lease, &["check", "-"]);
        assert!(checked.status.success(), "{}", stderr(&checked));
        assert!(stdout(&checked).starts_with("deploy is held, for another 2"), "{}", stdout(&checked));
        assert_eq!(stdout(&place.with(&lease, &["check", "-q"])), "");
        let released = place.output(&["release", &lease]);
        assert_eq!((stdout(&released).as_str(), released.status.code()), ("deploy is released\n", Some(0)));
        assert!(place.is_free("deploy"));
        assert_fails(&place.with(&lease, &["check"]), 79, "the lease is lost");
        assert_fails(&place.with(&lease, &["extend"]), 79, "the lease is lost");
        let again = place.with(&lease, &["release"]);
        assert_eq!(stdout(&again), "deploy was not held by this lease any more\n");
        assert!(again.status.success());
    }
}

#[test]
fn every_command_prints_json() {
    for place in places() {
        let json = |output: &Output| serde_json::from_str::<Value>(&stdout(output)).unwrap();
        let acquired = json(&place.output(&["acquire", "deploy", "--ttl", "20s", "--format", "json"]));
        assert_eq!(
            (&acquired["v"], &acquired["name"], &acquired["ttl_ms"]),
            (&1.into(), &"deploy".into(), &20_000.into())
        );
        let (lease, fence) = (acquired["lease"].as_str().unwrap(), acquired["fence"].as_u64().unwrap());
        assert!(fence > 0 && acquired["valid_ms"].as_u64().unwrap() > 10_000, "{acquired}");
        let checked = json(&place.with(lease, &["check", "--json"]));
        assert_eq!((&checked["held"], &checked["fence"]), (&true.into(), &fence.into()));
        assert!(json(&place.with(lease, &["extend", "--json"]))["valid_ms"].as_u64().unwrap() > 10_000);
        assert_eq!(json(&place.with(lease, &["release", "--json"]))["stood"], true);
        assert_eq!(json(&place.with(lease, &["release", "--json"]))["stood"], false);
        let lost = place.with(lease, &["check", "--json"]);
        assert_eq!((&json(&lost)["held"], lost.status.code()), (&false.into(), Some(79)));
        assert!(json(&place.output(&["acquire", "deploy", "--json"]))["lease"].is_string());
    }
}

#[test]
fn a_shell_evaluates_a_lease() {
    for place in places() {
        let script = r#"
            eval "$(quorlock acquire "it's \$HOME" --format sh)" || exit
            quorlock check -q || exit
            printf '%s\n' "$QUORLOCK_NAME" "$QUORLOCK_TTL_MS"
            test "$QUORLOCK_FENCE" -gt 0 || exit
            quorlock release"#;
        let output = place.shell(script);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "it's $HOME\n30000\nit's $HOME is released\n");
    }
}

#[test]
fn a_shell_gets_the_exit_code_of_a_failure() {
    for place in places() {
        let _lease = place.acquire(&["deploy"]);
        let script = r#"eval "$(quorlock acquire deploy -n --format sh)"; echo $? "$QUORLOCK_LEASE""#;
        assert_eq!(stdout(&place.shell(script)), "75 \n");
        let script = r#"eval "$(quorlock acquire deploy --nodes redis://a,redis://b --format sh)"; echo $?"#;
        assert_eq!(stdout(&place.shell(script)), "78\n");
        let script = r#"set -e; eval "$(quorlock acquire deploy -n --format sh 2>&-)"; echo not reached"#;
        let output = place.shell(script);
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(75)));
    }
}

#[test]
fn a_shell_gets_the_error_of_invalid_arguments() {
    let place = Place::file();
    for arguments in
        ["--format sh --bogus", "--bogus --format=sh", "-n -w 5s --format sh", "--format bash", "--fromat sh"]
    {
        let script = format!(r#"eval "$(quorlock acquire deploy {arguments})"; echo $? "$QUORLOCK_LEASE""#);
        assert_eq!(stdout(&place.shell(&script)), "64 \n", "{arguments}");
    }
    for arguments in ["", "--bogus", "--format json --bogus"] {
        let script = format!("quorlock acquire deploy -n {arguments} --ttl 1h; echo $?");
        assert_eq!(stdout(&place.shell(&script)), "64\n", "nothing is for eval: {arguments}");
    }
}

#[test]
fn a_script_that_checks_the_code_continues_only_with_a_lease() {
    let place = Place::file();
    let script = |acquire: &str| {
        let output = place.shell(&format!("lease=$({acquire} --format sh) || exit\neval \"$lease\"\nquorlock check"));
        (stdout(&output).lines().count(), output.status.code())
    };
    assert_eq!(script("quorlock acquire deploy"), (1, Some(0)));
    assert_eq!(script("quorlock acquire deploy"), (0, Some(75)), "held");
    assert_eq!(script("quorlock acquire other --bogus"), (0, Some(64)));
    assert_eq!(script("quorlock-that-is-missing acquire other"), (0, Some(127)), "of which eval makes a success");
}

#[test]
fn a_ttl_may_not_exceed_the_clusters_maximum() {
    let short = ["--max-ttl", "4s", "--max-clock-skew", "1s", "--max-clock-step-back", "1s"];
    let place = Place::file();
    let with = |arguments: &[&str]| place.output(&[arguments, &short].concat());
    let life = std::process::id().to_string();
    let acquired = with(&["acquire", "deploy", "--ttl", "4s", "--keep-while-pid", &life]);
    assert!(acquired.status.success(), "{}", stderr(&acquired));
    assert_eq!(place.keepers().len(), 1);
    // A ttl for other clusters must not affect commands that take no lock.
    for command in [&["status", "deploy"][..], &["list"], &["history"], &["doctor"], &["nodes"]] {
        assert!(with(command).status.success(), "{command:?}: {}", stderr(&with(command)));
    }
    let released = place.quorlock(&["release"]).args(short).env("QUORLOCK_LEASE", stdout(&acquired).trim()).output();
    assert_eq!(stdout(&released.unwrap()), "deploy is released\n");
    let flag = "--ttl must be between 100ms and the max_ttl of 4s";
    for (arguments, code, says) in
        [(&["--ttl", "5s"][..], 64, flag), (&["--ttl", "50ms"], 64, flag), (&[], 78, "out of bounds")]
    {
        assert_fails(&with(&[&["acquire", "deploy"], arguments].concat()), code, says);
        let grace = ["--kill-grace", "10ms", "--", "true"];
        let ran = place.output(&[&["run", "deploy"], arguments, &short, &grace].concat());
        assert_eq!(ran.status.code(), Some(code), "{}", stderr(&ran));
    }
}

#[test]
fn memory_nodes_are_refused() {
    let place = Place::file();
    for command in [&["acquire", "a"][..], &["run", "a", "--", "true"]] {
        let output = place.quorlock(command).env("QUORLOCK_NODES", "memory:").output().unwrap();
        assert_fails(&output, 78, &format!("locks nobody else out: not for {}", command[0]));
    }
}

#[test]
fn a_first_connection_reports_the_quarantine_of_new_nodes() {
    let (user, servers) = (User::new(), RedisServer::start_many(3));
    let nodes = servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",");
    let output = user.run(&["acquire", "deploy", "-n", "--nodes", &nodes]);
    assert_fails(&output, 69, "3 of 3 nodes are new, and can vote in ");
    assert!(stderr(&output).contains("quorlock nodes init --yes"), "{}", stderr(&output));
}

#[test]
fn an_invalid_lease_is_an_error_and_is_not_printed() {
    let place = places().next().unwrap();
    let lease = place.acquire(&["deploy"]);
    let cut = &lease[..lease.len() - 3];
    for command in ["extend", "release", "check"] {
        assert_fails(&place.output(&[command]), 64, "no lease: set $QUORLOCK_LEASE");
        assert_fails(&place.with("", &[command]), 64, "no lease: set $QUORLOCK_LEASE");
        assert_fails(&place.output(&[command, "deploy"]), 64, "this is not a lease");
        assert_fails(&place.fed("", &[command, "-"]), 64, "stdin: the lease is empty");
        for wrong in [cut.to_owned(), lease.replace("deploy", "deplay"), format!("{lease}{lease}")] {
            let output = place.with(&wrong, &[command]);
            assert_fails(&output, 64, "$QUORLOCK_LEASE: this lease was truncated or changed");
            assert!(!stderr(&output).contains(&lease[10..40]), "{}", stderr(&output));
        }
        assert_fails(&place.with(&lease.replace("q1.", "q9."), &[command]), 64, "a newer version of quorlock");
    }
    assert!(place.with(&lease, &["check"]).status.success(), "none of that did any harm");
}

#[test]
fn an_unextended_lease_ends_with_its_ttl() {
    for place in places() {
        let lease = place.acquire(&["deploy", "--ttl", "1s"]);
        eventually("the lease to end", || place.with(&lease, &["check"]).status.code() == Some(79));
        // The nodes keep it a little longer than its holder may rely on it.
        eventually("the lock to be free", || place.is_free("deploy"));
        assert_fails(&place.with(&lease, &["extend"]), 79, "the lease is lost");
        assert!(place.is_free("deploy"), "and nothing brings it back");
    }
}

#[test]
fn a_lease_outlives_the_process_that_acquired_it() {
    for place in places() {
        let lease = place.acquire(&["deploy"]);
        // The acquiring process is gone, which would free other locks of a file at once.
        assert_fails(&place.output(&["run", "deploy", "--wait", "1500ms", "--", "true"]), 75, "deploy is held");
        assert!(place.with(&lease, &["check"]).status.success());
    }
}

#[test]
fn shares_and_slots_are_leases_too() {
    for place in places() {
        let (first, second) = (place.acquire(&["doc", "--shared"]), place.acquire(&["doc", "--shared"]));
        assert_fails(&place.run_with_quorum(&["acquire", "doc", "-n"]), 75, "doc is held");
        place.with(&first, &["release"]);
        assert_fails(&place.run_with_quorum(&["acquire", "doc", "-n"]), 75, "doc is held");
        assert!(place.with(&second, &["extend"]).status.success());
        place.with(&second, &["release"]);
        assert!(place.is_free("doc"));
        let slots = ["pool", "--slots", "2", "-n"];
        let (first, _second) = (place.acquire(&slots), place.acquire(&slots));
        assert_fails(&place.run_with_quorum(&["acquire", "pool", "--slots", "2", "-n"]), 75, "pool is held");
        assert!(place.with(&first, &["check"]).status.success());
        assert!(place.with(&first, &["release"]).status.success());
        place.acquire(&slots);
    }
}

#[test]
fn a_lease_is_kept_only_while_a_process_lives() {
    for place in places() {
        // Ends with this test in any case.
        let mut life = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = life.id().to_string();
        let lease = place.acquire(&["deploy", "--ttl", "5s", "--keep-while-pid", &pid]);
        // Longer than the ttl.
        let end = Instant::now() + Duration::from_secs(7);
        while Instant::now() < end {
            let checked = place.with(&lease, &["check"]);
            // A check on a busy machine may fail once, but a lost lease stays lost.
            assert!([Some(0), Some(69)].contains(&checked.status.code()), "{}", stderr(&checked));
        }
        eventually("it is known to be held", || place.with(&lease, &["check"]).status.success());
        life.kill().unwrap();
        // Not reaped: its end is enough.
        eventually("the lock to be free", || place.is_free("deploy"));
        life.wait().unwrap();
        assert_fails(&place.with(&lease, &["check"]), 79, "the lease is lost");
        eventually("the keeper to end", || place.keepers().is_empty());
    }
}

#[test]
fn a_keeper_ends_when_its_lease_is_released() {
    for place in places() {
        let pid = std::process::id().to_string();
        // The keeper starts within the ttl, and a third of it later learns of the release.
        let flags = ["deploy", "--ttl", "6s", "--node-deadline", "3s", "--keep-while-pid", &pid];
        let lease = place.acquire(&flags);
        assert_eq!(place.keepers().len(), 1);
        let released = place.with(&lease, &["release", "--node-deadline", "10s"]);
        assert_eq!(stdout(&released), "deploy is released\n", "{}", stderr(&released));
        eventually("the keeper to end", || place.keepers().is_empty());
        assert!(place.is_free("deploy"));
    }
}

#[test]
fn a_missing_process_keeps_nothing() {
    let place = places().next().unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    assert_fails(&place.output(&["acquire", "deploy", "--keep-while-pid", &pid]), 64, "is not a running process");
    assert!(place.is_free("deploy"));
}

#[test]
fn a_lease_that_cannot_be_printed_is_released() {
    for place in places() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = place.quorlock(&["acquire", "deploy"]).stdout(full).output().unwrap();
        assert_fails(&output, 70, "cannot print the lease");
        assert!(place.is_free("deploy"));
    }
}

#[test]
fn an_interrupt_while_waiting_leaves_nothing() {
    for place in places() {
        let lease = place.acquire(&["deploy"]);
        let waiting = |count: u64| {
            let status = stdout(&place.output(&["status", "deploy", "--json"]));
            serde_json::from_str::<Value>(&status).unwrap()["waiting"] == count
        };
        let mut waiter = place.quorlock(&["acquire", "deploy", "--wait", "60s"]).spawn().unwrap();
        // The queue shows the waiter before the waiter reads the reply and says so.
        let mut told = BufReader::new(waiter.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(told.any(|line| line.contains("waiting for deploy")), "it must say that it waits");
        eventually("it waits", || waiting(1));
        signal(waiter.id(), "INT");
        let output = waiter.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(130), ""));
        assert!(waiting(0), "the waiter must leave the queue");
        assert!(place.with(&lease, &["release"]).status.success());
    }
}

#[test]
fn without_a_quorum_the_result_is_unknown() {
    let place = Place::servers();
    let lease = place.acquire(&["deploy"]);
    for server in &place.servers[..2] {
        server.kill();
    }
    for (command, says) in [("extend", "not extended"), ("check", "not known"), ("release", "not acknowledged")] {
        let output = place.with(&lease, &[command]);
        assert_fails(&output, 69, says);
        assert_eq!(stderr(&output).matches("unreachable: ").count(), 2, "{}", stderr(&output));
    }
    assert_fails(&place.output(&["acquire", "other", "-n"]), 69, "no quorum for other");
}
