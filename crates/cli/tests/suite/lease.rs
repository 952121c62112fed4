//! `acquire`, `extend`, `release` and `check`: leases that scripts pass between processes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use quorlock_testkit::{RedisServer, eventually};
use serde_json::Value;

use crate::common::setup::Setup;
use crate::common::{User, assert_fails, signal, stderr, stdout};

/// Returns three setups: with an SQLite file, with one server, and with three servers.
fn setups() -> impl Iterator<Item = Setup> {
    [Setup::with_file, || Setup::with_servers(1), Setup::with_three_servers].into_iter().map(|setup| setup())
}

impl Setup {
    fn output(&self, arguments: &[&str]) -> Output {
        self.quorlock(arguments).output().unwrap()
    }

    /// Acquires a lease, and returns its text.
    fn acquire(&self, arguments: &[&str]) -> String {
        let all_arguments: Vec<&str> = ["acquire"].iter().chain(arguments).copied().collect();
        let output = self.output(&all_arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let lease = stdout(&output).strip_suffix('\n').unwrap().to_owned();
        assert!(lease.starts_with("q1.") && !lease.contains(char::is_whitespace), "{lease}");
        lease
    }

    /// Runs a command with the lease in the environment.
    fn run_with_lease(&self, lease: &str, arguments: &[&str]) -> Output {
        self.quorlock(arguments).env("QUORLOCK_LEASE", lease).output().unwrap()
    }

    /// Runs a command with the lease on stdin.
    fn run_with_stdin(&self, lease: &str, arguments: &[&str]) -> Output {
        let mut child = self.quorlock(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(format!("{lease}\n").as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a shell script, in which `quorlock` is the tested program.
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

    /// Returns the ids of the background processes that extend leases of this user.
    fn keepers(&self) -> Vec<String> {
        let home = self.user.home.path().to_str().unwrap();
        let is_keeper = |pid: &String| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let has_our_home = String::from_utf8_lossy(&read("environ")).contains(home);
            read("cmdline").starts_with(b"quorlock-keeper\0") && has_our_home
        };
        let pids =
            std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        pids.filter(is_keeper).collect()
    }
}

#[test]
fn a_lease_is_extended_checked_and_released_by_other_processes() {
    for setup in setups() {
        let lease = setup.acquire(&["deploy", "--label", "us"]);
        assert_fails(&setup.run_with_quorum(&["acquire", "deploy", "-n"]), 75, "deploy is held by");
        assert!(!setup.is_free("deploy"));
        let extended = setup.run_with_lease(&lease, &["extend"]);
        assert!(extended.status.success(), "{}", stderr(&extended));
        assert!(stdout(&extended).starts_with("deploy is extended, for another 2"), "{}", stdout(&extended));
        let checked = setup.run_with_stdin(&lease, &["check", "-"]);
        assert!(checked.status.success(), "{}", stderr(&checked));
        assert!(stdout(&checked).starts_with("deploy is held, for another 2"), "{}", stdout(&checked));
        assert_eq!(stdout(&setup.run_with_lease(&lease, &["check", "-q"])), "");
        let released = setup.output(&["release", &lease]);
        assert_eq!((stdout(&released).as_str(), released.status.code()), ("deploy is released\n", Some(0)));
        assert!(setup.is_free("deploy"));
        assert_fails(&setup.run_with_lease(&lease, &["check"]), 79, "the lease is lost");
        assert_fails(&setup.run_with_lease(&lease, &["extend"]), 79, "the lease is lost");
        let second_release = setup.run_with_lease(&lease, &["release"]);
        assert_eq!(stdout(&second_release), "deploy was not held by this lease any more\n");
        assert!(second_release.status.success());
    }
}

#[test]
fn acquire_extend_check_and_release_print_json() {
    for setup in setups() {
        let json = |output: &Output| serde_json::from_str::<Value>(&stdout(output)).unwrap();
        let acquired = json(&setup.output(&["acquire", "deploy", "--ttl", "20s", "--format", "json"]));
        assert_eq!(
            (&acquired["v"], &acquired["name"], &acquired["ttl_ms"]),
            (&1.into(), &"deploy".into(), &20_000.into())
        );
        let (lease, fence) = (acquired["lease"].as_str().unwrap(), acquired["fence"].as_u64().unwrap());
        assert!(fence > 0 && acquired["valid_ms"].as_u64().unwrap() > 10_000, "{acquired}");
        let checked = json(&setup.run_with_lease(lease, &["check", "--json"]));
        assert_eq!((&checked["held"], &checked["fence"]), (&true.into(), &fence.into()));
        assert!(json(&setup.run_with_lease(lease, &["extend", "--json"]))["valid_ms"].as_u64().unwrap() > 10_000);
        assert_eq!(json(&setup.run_with_lease(lease, &["release", "--json"]))["stood"], true);
        assert_eq!(json(&setup.run_with_lease(lease, &["release", "--json"]))["stood"], false);
        let lost = setup.run_with_lease(lease, &["check", "--json"]);
        assert_eq!((&json(&lost)["held"], lost.status.code()), (&false.into(), Some(79)));
        assert!(json(&setup.output(&["acquire", "deploy", "--json"]))["lease"].is_string());
    }
}

#[test]
fn a_shell_can_evaluate_the_output_of_acquire() {
    for setup in setups() {
        let script = r#"
            eval "$(quorlock acquire "it's \$HOME" --format sh)" || exit
            quorlock check -q || exit
            printf '%s\n' "$QUORLOCK_NAME" "$QUORLOCK_TTL_MS"
            test "$QUORLOCK_FENCE" -gt 0 || exit
            quorlock release"#;
        let output = setup.shell(script);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), "it's $HOME\n30000\nit's $HOME is released\n");
    }
}

#[test]
fn a_shell_that_evaluates_the_output_gets_the_exit_code_of_a_failure() {
    for setup in setups() {
        let _lease = setup.acquire(&["deploy"]);
        let script = r#"eval "$(quorlock acquire deploy -n --format sh)"; echo $? "$QUORLOCK_LEASE""#;
        assert_eq!(stdout(&setup.shell(script)), "75 \n");
        let script = r#"eval "$(quorlock acquire deploy --nodes redis://a,redis://b --format sh)"; echo $?"#;
        assert_eq!(stdout(&setup.shell(script)), "78\n");
        let script = r#"set -e; eval "$(quorlock acquire deploy -n --format sh 2>&-)"; echo not reached"#;
        let output = setup.shell(script);
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(75)));
    }
}

#[test]
fn a_shell_that_evaluates_the_output_gets_the_exit_code_of_invalid_arguments() {
    let setup = Setup::with_file();
    for arguments in
        ["--format sh --bogus", "--bogus --format=sh", "-n -w 5s --format sh", "--format bash", "--fromat sh"]
    {
        let script = format!(r#"eval "$(quorlock acquire deploy {arguments})"; echo $? "$QUORLOCK_LEASE""#);
        assert_eq!(stdout(&setup.shell(&script)), "64 \n", "{arguments}");
    }
    for arguments in ["", "--bogus", "--format json --bogus"] {
        let script = format!("quorlock acquire deploy -n {arguments} --ttl 1h; echo $?");
        assert_eq!(stdout(&setup.shell(&script)), "64\n", "a text or JSON output must not be for eval: {arguments}");
    }
}

#[test]
fn a_script_that_checks_the_exit_code_continues_only_with_a_lease() {
    let setup = Setup::with_file();
    let script = |acquire: &str| {
        let output = setup.shell(&format!("lease=$({acquire} --format sh) || exit\neval \"$lease\"\nquorlock check"));
        (stdout(&output).lines().count(), output.status.code())
    };
    assert_eq!(script("quorlock acquire deploy"), (1, Some(0)));
    assert_eq!(script("quorlock acquire deploy"), (0, Some(75)), "the lock is held");
    assert_eq!(script("quorlock acquire other --bogus"), (0, Some(64)));
    assert_eq!(script("quorlock-that-is-missing acquire other"), (0, Some(127)), "eval alone would succeed");
}

#[test]
fn a_ttl_must_not_exceed_the_max_ttl() {
    let constants = ["--max-ttl", "4s", "--max-clock-skew", "1s", "--max-clock-step-back", "1s"];
    let setup = Setup::with_file();
    let run_with_constants = |arguments: &[&str]| setup.output(&[arguments, &constants].concat());
    let own_pid = std::process::id().to_string();
    let acquired = run_with_constants(&["acquire", "deploy", "--ttl", "4s", "--keep-while-pid", &own_pid]);
    assert!(acquired.status.success(), "{}", stderr(&acquired));
    assert_eq!(setup.keepers().len(), 1);
    // The default ttl is too long for this cluster, which must not affect commands that acquire no lock.
    for command in [&["status", "deploy"][..], &["list"], &["history"], &["doctor"], &["nodes"]] {
        assert!(run_with_constants(command).status.success(), "{command:?}: {}", stderr(&run_with_constants(command)));
    }
    let released =
        setup.quorlock(&["release"]).args(constants).env("QUORLOCK_LEASE", stdout(&acquired).trim()).output();
    assert_eq!(stdout(&released.unwrap()), "deploy is released\n");
    let flag_message = "--ttl must be between 100ms and the max_ttl of 4s";
    for (arguments, code, message) in
        [(&["--ttl", "5s"][..], 64, flag_message), (&["--ttl", "50ms"], 64, flag_message), (&[], 78, "out of bounds")]
    {
        assert_fails(&run_with_constants(&[&["acquire", "deploy"], arguments].concat()), code, message);
        let grace = ["--kill-grace", "10ms", "--", "true"];
        let output = setup.output(&[&["run", "deploy"], arguments, &constants, &grace].concat());
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
}

#[test]
fn memory_nodes_are_refused() {
    let setup = Setup::with_file();
    for command in [&["acquire", "a"][..], &["run", "a", "--", "true"]] {
        let output = setup.quorlock(command).env("QUORLOCK_NODES", "memory:").output().unwrap();
        assert_fails(&output, 78, &format!("quorlock {} cannot use memory: nodes", command[0]));
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
    let setup = setups().next().unwrap();
    let lease = setup.acquire(&["deploy"]);
    let truncated = &lease[..lease.len() - 3];
    for command in ["extend", "release", "check"] {
        assert_fails(&setup.output(&[command]), 64, "no lease: set $QUORLOCK_LEASE");
        assert_fails(&setup.run_with_lease("", &[command]), 64, "no lease: set $QUORLOCK_LEASE");
        assert_fails(&setup.output(&[command, "deploy"]), 64, "this is not a lease");
        assert_fails(&setup.run_with_stdin("", &[command, "-"]), 64, "stdin: the lease is empty");
        for invalid_lease in [truncated.to_owned(), lease.replace("deploy", "deplay"), format!("{lease}{lease}")] {
            let output = setup.run_with_lease(&invalid_lease, &[command]);
            assert_fails(&output, 64, "$QUORLOCK_LEASE: this lease was truncated or changed");
            assert!(!stderr(&output).contains(&lease[10..40]), "{}", stderr(&output));
        }
        assert_fails(
            &setup.run_with_lease(&lease.replace("q1.", "q9."), &[command]),
            64,
            "a newer version of quorlock",
        );
    }
    assert!(setup.run_with_lease(&lease, &["check"]).status.success(), "an invalid lease has changed the valid one");
}

#[test]
fn an_unextended_lease_ends_with_its_ttl() {
    for setup in setups() {
        // With a short ttl, the node deadline is short too: on a busy machine, the first attempt may be too slow.
        let lease = setup.acquire(&["deploy", "--ttl", "1s", "--wait", "1m"]);
        eventually("the lease has ended", || setup.run_with_lease(&lease, &["check"]).status.code() == Some(79));
        // The nodes keep a lease a little longer than its holder may rely on it.
        eventually("the lock is free", || setup.is_free("deploy"));
        assert_fails(&setup.run_with_lease(&lease, &["extend"]), 79, "the lease is lost");
        assert!(setup.is_free("deploy"), "an extension has revived the lease");
    }
}

#[test]
fn a_lease_outlives_the_process_that_acquired_it() {
    for setup in setups() {
        let lease = setup.acquire(&["deploy"]);
        // The process that acquired the lease has ended. In a file, its end would free a lock of `quorlock run` at
        // once.
        assert_fails(&setup.output(&["run", "deploy", "--wait", "1500ms", "--", "true"]), 75, "deploy is held");
        assert!(setup.run_with_lease(&lease, &["check"]).status.success());
    }
}

#[test]
fn shared_locks_and_slots_can_be_extended_and_released() {
    for setup in setups() {
        let (first_lease, second_lease) = (setup.acquire(&["doc", "--shared"]), setup.acquire(&["doc", "--shared"]));
        assert_fails(&setup.run_with_quorum(&["acquire", "doc", "-n"]), 75, "doc is held");
        setup.run_with_lease(&first_lease, &["release"]);
        assert_fails(&setup.run_with_quorum(&["acquire", "doc", "-n"]), 75, "doc is held");
        assert!(setup.run_with_lease(&second_lease, &["extend"]).status.success());
        setup.run_with_lease(&second_lease, &["release"]);
        assert!(setup.is_free("doc"));
        let slot_arguments = ["pool", "--slots", "2", "-n"];
        let (first_lease, _second_lease) = (setup.acquire(&slot_arguments), setup.acquire(&slot_arguments));
        assert_fails(&setup.run_with_quorum(&["acquire", "pool", "--slots", "2", "-n"]), 75, "pool is held");
        assert!(setup.run_with_lease(&first_lease, &["check"]).status.success());
        assert!(setup.run_with_lease(&first_lease, &["release"]).status.success());
        setup.acquire(&slot_arguments);
    }
}

#[test]
fn a_lease_is_kept_only_while_a_process_lives() {
    for setup in setups() {
        // `cat` ends at the latest when this test ends, because its stdin is closed then.
        let mut watched_process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = watched_process.id().to_string();
        let lease = setup.acquire(&["deploy", "--ttl", "5s", "--keep-while-pid", &pid]);
        // Check for longer than the ttl.
        let end = Instant::now() + Duration::from_secs(7);
        while Instant::now() < end {
            let checked = setup.run_with_lease(&lease, &["check"]);
            // A check on a busy machine may fail once, but a lost lease stays lost.
            assert!([Some(0), Some(69)].contains(&checked.status.code()), "{}", stderr(&checked));
        }
        eventually("a quorum reports that the lease is held", || {
            setup.run_with_lease(&lease, &["check"]).status.success()
        });
        watched_process.kill().unwrap();
        // The process is not reaped yet, but it has ended, which must be enough.
        eventually("the lock is free", || setup.is_free("deploy"));
        watched_process.wait().unwrap();
        assert_fails(&setup.run_with_lease(&lease, &["check"]), 79, "the lease is lost");
        eventually("the keeper has ended", || setup.keepers().is_empty());
    }
}

#[test]
fn a_keeper_ends_when_its_lease_is_released() {
    for setup in setups() {
        let pid = std::process::id().to_string();
        // The ttl leaves the keeper enough time to start. The keeper learns of the release when it extends the lease,
        // after a third of the ttl.
        let flags = ["deploy", "--ttl", "6s", "--node-deadline", "3s", "--keep-while-pid", &pid];
        let lease = setup.acquire(&flags);
        assert_eq!(setup.keepers().len(), 1);
        let released = setup.run_with_lease(&lease, &["release", "--node-deadline", "10s"]);
        assert_eq!(stdout(&released), "deploy is released\n", "{}", stderr(&released));
        eventually("the keeper has ended", || setup.keepers().is_empty());
        assert!(setup.is_free("deploy"));
    }
}

#[test]
fn a_lease_cannot_be_kept_for_a_process_that_has_ended() {
    let setup = setups().next().unwrap();
    let mut ended_process = Command::new("true").spawn().unwrap();
    ended_process.wait().unwrap();
    let pid = ended_process.id().to_string();
    assert_fails(&setup.output(&["acquire", "deploy", "--keep-while-pid", &pid]), 64, "is not a running process");
    assert!(setup.is_free("deploy"));
}

#[test]
fn a_lease_that_cannot_be_printed_is_released() {
    for setup in setups() {
        let full_device = File::options().write(true).open("/dev/full").unwrap();
        let output = setup.quorlock(&["acquire", "deploy"]).stdout(full_device).output().unwrap();
        assert_fails(&output, 70, "cannot print the lease");
        assert!(setup.is_free("deploy"));
    }
}

#[test]
fn an_interrupted_waiter_leaves_the_queue() {
    for setup in setups() {
        let lease = setup.acquire(&["deploy"]);
        let has_waiters = |count: u64| {
            let status = stdout(&setup.output(&["status", "deploy", "--json"]));
            serde_json::from_str::<Value>(&status).unwrap()["waiting"] == count
        };
        let mut waiter = setup.quorlock(&["acquire", "deploy", "--wait", "60s"]).spawn().unwrap();
        // The waiter prints a line after it has got a queue position and read the reply.
        let mut lines = BufReader::new(waiter.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("waiting for deploy")), "the waiter did not print that it waits");
        eventually("the waiter is in the queue", || has_waiters(1));
        signal(waiter.id(), "INT");
        let output = waiter.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(130), ""));
        assert!(has_waiters(0), "the waiter is still in the queue");
        assert!(setup.run_with_lease(&lease, &["release"]).status.success());
    }
}

#[test]
fn without_a_quorum_extend_check_and_release_fail_with_69() {
    let setup = Setup::with_three_servers();
    let lease = setup.acquire(&["deploy"]);
    for server in &setup.servers[..2] {
        server.kill();
    }
    for (command, message) in [("extend", "not extended"), ("check", "not known"), ("release", "not acknowledged")] {
        let output = setup.run_with_lease(&lease, &[command]);
        assert_fails(&output, 69, message);
        assert_eq!(stderr(&output).matches("unreachable: ").count(), 2, "{}", stderr(&output));
    }
    assert_fails(&setup.output(&["acquire", "other", "-n"]), 69, "no quorum for other");
}
