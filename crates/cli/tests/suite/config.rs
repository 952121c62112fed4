//! Settings from flags, the environment and a file. Also tests colours, completions and the manual.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Output;

use quorlock_testkit::RedisServer;

use crate::common::pty::Pty;
use crate::common::{User, assert_fails, stderr, stdout};

/// Writes the user's configuration file.
fn configure(user: &User, text: &str) -> PathBuf {
    let folder = user.home.path().join("quorlock");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("config.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Returns the line of `quorlock config` about one key, with single spaces.
fn config_line(text: &str, key: &str) -> String {
    let line = text.lines().find(|line| line.split(' ').next() == Some(key)).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn flags_override_the_environment_the_file_and_the_defaults() {
    let user = User::new();
    let path = configure(&user, "ttl = \"20s\"\nmax_ttl = \"2m\"\nmax_clock_skew = \"3s\"\n").display().to_string();
    let mut command = user.quorlock(&["config", "--max-ttl", "90s"]);
    let output = command.env("QUORLOCK_MAX_TTL", "80s").env("QUORLOCK_MAX_CLOCK_SKEW", "4s").output().unwrap();
    let text = stdout(&output);
    assert_eq!(config_line(&text, "max_ttl"), "max_ttl 90s --max-ttl");
    assert_eq!(config_line(&text, "max_clock_skew"), "max_clock_skew 4s $QUORLOCK_MAX_CLOCK_SKEW");
    assert_eq!(config_line(&text, "ttl"), format!("ttl 20s {path}:1"));
    assert_eq!(config_line(&text, "max_clock_step_back"), "max_clock_step_back 10s default");
    assert!(text.contains(&format!("\nfile: {path}\n")), "{text}");
}

#[test]
fn a_profile_is_selected_by_flag_environment_or_file() {
    let user = User::new();
    let file = "default_profile = \"a\"\nttl = \"9s\"\n[profile.a]\nttl = \"20s\"\n[profile.b]\nttl = \"21s\"\n";
    let path = configure(&user, file).display().to_string();
    let text = stdout(&user.run(&["config"]));
    assert_eq!(config_line(&text, "ttl"), format!("ttl 20s {path}:4 (profile a)"));
    let output = user.quorlock(&["config"]).env("QUORLOCK_PROFILE", "b").output().unwrap();
    assert_eq!(config_line(&stdout(&output), "ttl"), format!("ttl 21s {path}:6 (profile b)"));
    let output = user.run(&["config", "--profile", "b"]);
    assert!(stdout(&output).contains("config.toml, profile b\n"), "{}", stdout(&output));
    assert_fails(&user.run(&["config", "--profile", "c"]), 78, "no profile \"c\"; there are a, b");
}

#[test]
fn a_profile_without_a_file_is_an_error() {
    assert_fails(&User::new().run(&["run", "a", "--profile", "x", "--", "true"]), 78, "no configuration file");
}

#[test]
fn an_error_in_the_file_is_reported_with_its_line() {
    let user = User::new();
    let path = configure(&user, "# ours\nttl = \"20s\"\ntll = \"20s\"\n").display().to_string();
    let output = user.run(&["run", "a", "--", "true"]);
    assert_fails(&output, 78, &format!("{path}:3: unknown key \"tll\""));
    assert!(stderr(&output).contains("known are nodes"), "{}", stderr(&output));
}

#[test]
fn a_named_file_must_exist() {
    let user = User::new();
    assert_fails(&user.run(&["config", "--config", "/nowhere/c.toml"]), 78, "/nowhere/c.toml: No such file");
    let output = user.quorlock(&["config"]).env("QUORLOCK_CONFIG", "/nowhere/d.toml").output().unwrap();
    assert_fails(&output, 78, "/nowhere/d.toml: No such file");
}

#[test]
fn an_invalid_value_is_reported_with_its_origin() {
    let user = User::new();
    let output = user.quorlock(&["config"]).env("QUORLOCK_TTL", "30").output().unwrap();
    assert_fails(&output, 78, "$QUORLOCK_TTL: 30 of what? Say 30s or 30ms");
    assert_fails(&user.run(&["config", "--color", "red"]), 64, "--color: \"red\" is not one of \"auto\"");
}

#[test]
fn the_nodes_of_the_file_are_used_and_their_password_comes_from_a_file() {
    let server = RedisServer::builder().password("correct-horse").start();
    let user = User::new();
    let password_path = user.home.path().join("secret");
    std::fs::write(&password_path, "correct-horse\n").unwrap();
    let text = format!("nodes = [\"redis://{}\"]\npassword_file = \"{}\"\n", server.addr(), password_path.display());
    configure(&user, &text);
    let output = user.run(&["run", "a", "--", "echo", "in"]);
    assert_eq!(stdout(&output), "in\n", "{}", stderr(&output));
    // The environment overrides the file, and contains a wrong password.
    let output = user.quorlock(&["run", "a", "--", "true"]).env("QUORLOCK_PASSWORD", "wrong-horse").output().unwrap();
    assert_fails(&output, 77, "access denied");
    assert!(!stderr(&output).contains("horse"), "{}", stderr(&output));
    std::fs::remove_file(&password_path).unwrap();
    assert_fails(&user.run(&["run", "a", "--", "true"]), 78, "cannot read the password");
}

#[test]
fn passwords_are_not_shown() {
    let user = User::new();
    for flags in
        [&["config", "--nodes", "redis://me:horse@h:1"][..], &["config", "--json", "--nodes", "redis://me:horse@h:1"]]
    {
        let text = stdout(&user.run(flags));
        assert!(text.contains("redis://me:***@h:1") && !text.contains("horse"), "{text}");
    }
}

#[test]
fn settings_can_be_printed_as_json() {
    let output = User::new().run(&["config", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["v"], 1);
    let ttl = value["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == "ttl").unwrap();
    assert_eq!((&ttl["value"], &ttl["origin"]), (&"30s".into(), &"default".into()));
}

/// Runs `true` under a lock, with a list of nodes in the environment.
fn run_with_nodes(user: &User, nodes: &str) -> Output {
    user.quorlock(&["run", "a", "--", "true"]).env("QUORLOCK_NODES", nodes).output().unwrap()
}

#[test]
fn an_empty_list_of_nodes_is_an_error() {
    let user = User::new();
    for list in ["", " ", ",", " , ,"] {
        let output = user.run(&["run", "a", "--nodes", list, "--", "true"]);
        assert_fails(&output, 78, "--nodes: the list of nodes");
        assert_fails(&run_with_nodes(&user, list), 78, "$QUORLOCK_NODES");
    }
    for list in ["[]", "[\"\"]", "\" \"", "[\"redis://:hush@a\", \" \"]"] {
        let path = configure(&user, &format!("# ours\nnodes = {list}\n")).display().to_string();
        let output = user.run(&["run", "a", "--", "true"]);
        assert_fails(&output, 78, &format!("{path}:2: nodes: the list of nodes"));
        assert!(!stderr(&output).contains("hush"), "{}", stderr(&output));
    }
    assert!(!user.home.path().join("quorlock/locks.db").exists(), "the local file was created");
}

#[test]
fn a_blank_entry_in_a_list_of_nodes_is_an_error() {
    let user = User::new();
    for list in ["redis://:hush@a,,redis://b", "redis://:hush@a,redis://b,", ",redis://:hush@a"] {
        let output = run_with_nodes(&user, list);
        assert_fails(&output, 78, "$QUORLOCK_NODES: the list of nodes has a blank entry");
        assert!(!stderr(&output).contains("hush"), "{}", stderr(&output));
    }
}

#[test]
fn a_variable_that_is_empty_or_not_utf8_is_an_error() {
    let user = User::new();
    for name in ["QUORLOCK_CONFIG", "QUORLOCK_PROFILE", "QUORLOCK_REQUIRE_CLUSTER", "QUORLOCK_PASSWORD"] {
        let output = user.quorlock(&["run", "a", "--", "true"]).env(name, "").output().unwrap();
        assert_fails(&output, 78, &format!("${name} is set but empty"));
    }
    let invalid_utf8 = OsStr::from_bytes(b"redis://a\xff");
    let output = user.quorlock(&["run", "a", "--", "true"]).env("QUORLOCK_NODES", invalid_utf8).output().unwrap();
    assert_fails(&output, 78, "$QUORLOCK_NODES is not valid UTF-8");
}

#[test]
fn require_cluster_refuses_the_local_file() {
    let user = User::new();
    let command = ["run", "a", "--", "true"];
    let assert_refused = |output: &Output, origin: &str| {
        assert_fails(output, 78, &format!("({origin}) refuses locks of this host alone"));
    };
    assert_refused(&user.run(&["run", "a", "--require-cluster", "--", "true"]), "--require-cluster");
    let output = user.quorlock(&command).env("QUORLOCK_REQUIRE_CLUSTER", "true").output().unwrap();
    assert_refused(&output, "$QUORLOCK_REQUIRE_CLUSTER");
    let path = configure(&user, "require_cluster = true\n").display().to_string();
    assert_refused(&user.run(&command), &format!("{path}:1"));
    assert!(stderr(&user.run(&command)).contains("no nodes are configured"));
    assert_refused(&run_with_nodes(&user, "sqlite:/nowhere/x.db"), &format!("{path}:1"));
    assert_refused(&user.run(&["list", "--nodes", "memory:"]), &format!("{path}:1"));
    assert!(!user.home.path().join("quorlock/locks.db").exists(), "the local file was created");
    assert!(user.run(&["config"]).status.success(), "quorlock config is refused, too");

    let server = RedisServer::start();
    assert!(run_with_nodes(&user, &server.url()).status.success(), "a server is refused");
    let output = user.quorlock(&command).env("QUORLOCK_REQUIRE_CLUSTER", "false").output().unwrap();
    assert!(output.status.success(), "the environment does not override the file: {}", stderr(&output));
}

#[test]
fn run_names_its_nodes_if_verbose_or_on_a_terminal() {
    let server = RedisServer::builder().password("correct-horse").start();
    let user = User::new();
    let nodes = format!("redis://:correct-horse@{}", server.addr());
    let line = format!("quorlock: nodes: redis://:***@{} ($QUORLOCK_NODES)", server.addr());
    let run = |flags: &[&str]| {
        let mut command = user.quorlock(&[&["run", "a"], flags, &["--", "true"]].concat());
        command.env("QUORLOCK_NODES", &nodes);
        command
    };
    let output = run(&["-v"]).output().unwrap();
    assert_eq!(stderr(&output).lines().next(), Some(line.as_str()));
    assert!(!stderr(&output).contains("horse"), "{}", stderr(&output));
    assert_eq!(stderr(&run(&[]).output().unwrap()), "", "the nodes are printed without a terminal");
    Pty::spawn(&run(&[])).wait_for_text(&line);
    let mut quiet_terminal = Pty::spawn(&run(&["-q"]));
    assert!(quiet_terminal.wait().success());
    assert_eq!(quiet_terminal.text().trim(), "");

    let output = user.run(&["run", "a", "-v", "--", "true"]);
    let text = stderr(&output);
    assert!(text.contains("locks.db (default; this host alone)"), "{text}");
}

#[test]
fn the_searched_files_are_listed() {
    let user = User::new();
    let own_path = user.home.path().join("quorlock/config.toml").display().to_string();
    let text = stdout(&user.run(&["config"]));
    let system_path = "/etc/quorlock/config.toml";
    assert!(text.contains(&format!("\nlooked for: {own_path}, {system_path}\n")), "{text}");
    let value: serde_json::Value = serde_json::from_slice(&user.run(&["config", "--json"]).stdout).unwrap();
    assert_eq!(value["looked_for"], serde_json::json!([own_path, system_path]));
    configure(&user, "ttl = \"20s\"\n");
    assert!(
        stdout(&user.run(&["config"])).contains(&format!("\nlooked for: {own_path}\n")),
        "paths after the first file are listed"
    );
}

#[test]
fn a_broken_link_is_an_error_and_not_a_missing_file() {
    let user = User::new();
    let path = configure(&user, "");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/nowhere/config.toml", &path).unwrap();
    let output = user.run(&["run", "a", "--", "true"]);
    assert_fails(&output, 78, &format!("{}: No such file", path.display()));
}

#[test]
fn a_broken_link_to_the_folder_of_the_file_is_an_error_that_names_the_link() {
    for (link, target) in [("quorlock", "/nowhere"), ("", "/nowhere"), ("quorlock", "/proc/self/status")] {
        let user = User::new();
        let home = user.home.path().join("config");
        let link = if link.is_empty() { home.clone() } else { home.join(link) };
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        let output = user.quorlock(&["run", "a", "--", "true"]).env("XDG_CONFIG_HOME", &home).output().unwrap();
        assert_fails(&output, 78, &format!("{} is a link to {target}, which is not a folder", link.display()));
    }
    let user = User::new();
    let missing_folder = user.home.path().join("no/such/folder");
    let output = user.quorlock(&["run", "a", "--", "true"]).env("XDG_CONFIG_HOME", missing_folder).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn an_unknown_quorlock_variable_is_an_error_that_names_the_closest_variable() {
    let user = User::new();
    let run_with =
        |name: &str| user.quorlock(&["run", "a", "--", "true"]).env(name, "redis://127.0.0.1:1").output().unwrap();
    for (name, message) in [
        ("QUORLOCK_NODE", "$QUORLOCK_NODE is not a variable of quorlock; did you mean $QUORLOCK_NODES?"),
        ("QUORLOCK_NODES_", "did you mean $QUORLOCK_NODES?"),
        ("QUORLOCK_REQUIRE_CLUSTERS", "did you mean $QUORLOCK_REQUIRE_CLUSTER?"),
        (
            "QUORLOCK_SERVERS",
            "$QUORLOCK_SERVERS is not a variable of quorlock\n  known are QUORLOCK_CONFIG, QUORLOCK_PROFILE",
        ),
        ("QUORLOCK_", "$QUORLOCK_ is not"),
    ] {
        assert_fails(&run_with(name), 78, message);
    }
    let invalid_utf8 = OsStr::from_bytes(b"QUORLOCK_N\xff");
    let output = user.quorlock(&["config"]).env(invalid_utf8, "1").output().unwrap();
    assert_fails(&output, 78, "is not a variable of quorlock");
    // Variables of our tests, of Kubernetes for a service called quorlock, and of another program.
    for name in [
        "QUORLOCK_WITHOUT",
        "QUORLOCK_REDIS_SERVER",
        "QUORLOCK_TEST_ROLE",
        "QUORLOCK_SERVICE_HOST",
        "QUORLOCK_WEB_SERVICE_PORT_HTTP",
        "QUORLOCK_PORT",
        "QUORLOCK_WEB_PORT_8080_TCP_ADDR",
        "QUORLOCKS",
    ] {
        assert!(run_with(name).status.success(), "{name}: {}", stderr(&run_with(name)));
    }
}

#[test]
fn a_command_can_use_quorlock_in_the_environment_of_run() {
    let user = User::new();
    for flags in [&[][..], &["--shared"], &["--slots", "2"]] {
        let script = r#""$Q" status a > /dev/null && "$Q" run b -- "$Q" check && "$Q" config > /dev/null"#;
        let run = [&["run", "a"], flags, &["--", "sh", "-c", script]].concat();
        let output = user.quorlock(&run).env("Q", env!("CARGO_BIN_EXE_quorlock")).output().unwrap();
        assert!(output.status.success(), "{flags:?}: {}", stderr(&output));
    }
    let script = r#"eval "$("$Q" acquire a --format sh)" && "$Q" check && "$Q" release"#;
    let mut shell = user.quorlock(&["run", "b", "--", "sh", "-c", script]);
    let output = shell.env("Q", env!("CARGO_BIN_EXE_quorlock")).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn colours_are_for_terminals_by_default() {
    let user = User::new();
    let has_colours = |flags: &[&str], no_color: &str| {
        let output = user.quorlock(flags).env("NO_COLOR", no_color).output().unwrap();
        stdout(&output).contains('\u{1b}')
    };
    assert!(!has_colours(&["config"], ""));
    assert!(!has_colours(&["config"], "1"));
    assert!(has_colours(&["config", "--color", "always"], "1"), "the flag does not override NO_COLOR");
}

#[test]
fn the_manual_and_the_completions_come_from_the_binary() {
    let user = User::new();
    assert!(stdout(&user.run(&["man"])).contains(".TH quorlock 1"));
    let page = stdout(&user.run(&["man", "run"]));
    assert!(page.contains(".TH quorlock-run 1") && page.contains("Exit codes"), "{page}");
    assert_fails(&user.run(&["man", "nonsense"]), 64, "no command \"nonsense\"");
    let folder = user.home.path().join("man");
    assert!(user.run(&["man", "--dir", folder.to_str().unwrap()]).status.success());
    for page in ["quorlock.1", "quorlock-run.1", "quorlock-nodes-init.1"] {
        assert!(folder.join(page).exists(), "{page}");
    }
    assert!(!folder.join("quorlock-help.1").exists());
    for shell in ["bash", "zsh", "fish"] {
        let text = stdout(&user.run(&["completions", shell]));
        assert!(text.contains("completions") && text.contains("key-template"), "{shell}: {text}");
    }
    assert_fails(&user.run(&["completions", "cmd"]), 64, "bash");
}
