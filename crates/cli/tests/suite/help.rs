//! Snapshots of the help of every command. `QUORLOCK_WRITE_HELP=1 cargo test -p quorlock-cli --test suite help` updates
//! them.

use std::path::PathBuf;

use crate::common::{User, stdout};

/// Every command that has a help text of its own. The empty command is the tool itself.
const COMMANDS: [&[&str]; 23] = [
    &[],
    &["run"],
    &["acquire"],
    &["extend"],
    &["release"],
    &["check"],
    &["status"],
    &["list"],
    &["watch"],
    &["break"],
    &["history"],
    &["nodes"],
    &["nodes", "init"],
    &["nodes", "wait"],
    &["nodes", "reconfigure"],
    &["doctor"],
    &["serve"],
    &["config"],
    &["bench"],
    &["demo"],
    &["completions"],
    &["man"],
    &["--version"],
];

fn snapshot_path(command: &[&str]) -> PathBuf {
    let name = if command.is_empty() { "quorlock".to_owned() } else { command.join("-") };
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suite/help").join(format!("{}.txt", name.trim_matches('-')))
}

#[test]
fn the_help_of_every_command_matches_its_snapshot() {
    let user = User::new();
    for command in COMMANDS {
        let help = if command == ["--version"] { vec!["--version"] } else { [command, &["--help"]].concat() };
        let output = user.quorlock(&help).env("COLUMNS", "80").output().unwrap();
        assert!(output.status.success(), "{help:?}");
        let (path, text) = (snapshot_path(command), stdout(&output));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{help:?} is wider than 80 columns");
        if std::env::var_os("QUORLOCK_WRITE_HELP").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            text, snapshot,
            "{help:?}: if the new text is right, update the snapshot with QUORLOCK_WRITE_HELP=1"
        );
    }
}

#[test]
fn the_short_flag_prints_the_same_help() {
    let user = User::new();
    for command in COMMANDS.iter().filter(|command| **command != ["--version"]) {
        let [short, long] = ["-h", "--help"].map(|flag| stdout(&user.run(&[command, &[flag][..]].concat())));
        assert_eq!(short, long, "{command:?}");
    }
    assert_eq!(stdout(&user.run(&["help"])), stdout(&user.run(&["--help"])));
}

#[test]
fn every_command_has_a_snapshot() {
    let text = stdout(&User::new().run(&["completions", "fish"]));
    let listed = text.lines().filter_map(|line| {
        let named = line.contains("__fish_quorlock_needs_command").then(|| line.split(" -a \"").nth(1)).flatten()?;
        named.split('"').next().map(ToOwned::to_owned)
    });
    for command in listed.filter(|command| !command.starts_with("__") && command != "help") {
        assert!(COMMANDS.contains(&&[command.as_str()][..]), "{command}");
    }
}
