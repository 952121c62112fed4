use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::file::File;
use super::value::split_nodes;
use super::*;

fn parse(text: &str) -> Result<File, String> {
    File::parse(PathBuf::from("c.toml"), text).map_err(|failure| failure.text)
}

#[test]
fn a_value_in_the_profile_overrides_a_common_value() {
    let file = parse("ttl = \"20s\"\nmax_ttl = \"50s\"\n[profile.fast]\nttl = \"10s\"\n").unwrap();
    let value = |name, profile| file.value(key::find(name).unwrap(), profile);
    let seconds = |seconds| Value::Duration(Duration::from_secs(seconds));
    assert_eq!(value("ttl", None), Some((seconds(20), "c.toml:1".into())));
    assert_eq!(value("ttl", Some("fast")), Some((seconds(10), "c.toml:4 (profile fast)".into())));
    assert_eq!(value("max_ttl", Some("fast")), Some((seconds(50), "c.toml:2".into())));
    assert_eq!(value("nodes", Some("fast")), None);
}

#[test]
fn an_error_names_the_line_and_the_accepted_values() {
    for (text, message) in [
        ("ttl = \"20s\"\ntll = \"20s\"\n", "c.toml:2: unknown key \"tll\""),
        ("tll = \"20s\"\n", "known are nodes, require_cluster"),
        ("ttl = 20\n", "c.toml:1: ttl takes a duration"),
        ("ttl = \"20\"\n", "c.toml:1: ttl: 20 of what? Say 20s or 20ms"),
        ("color = \"red\"\n", "c.toml:1: color: \"red\" is not one of \"auto\", \"always\", \"never\""),
        ("danger_trust_restarts = \"yes\"\n", "takes true or false"),
        ("nodes = [1]\n", "c.toml:1: nodes takes a list of URLs"),
        ("nodes = []\n", "c.toml:1: nodes: the list of nodes is empty"),
        ("[profile.a]\nnodes = []\n", "c.toml:2: nodes: the list of nodes is empty"),
        ("nodes = [\"redis://a\", \"\"]\n", "c.toml:1: nodes: the list of nodes has a blank entry, number 2 of 2"),
        ("require_cluster = \"true\"\n", "c.toml:1: require_cluster takes true or false"),
        ("password = \"x\"\n", "use password_file or $QUORLOCK_PASSWORD"),
        ("\n\nttl = \n", "c.toml:3: "),
        ("profile = \"x\"\n", "c.toml:1: profiles are tables"),
        ("[profile.a]\nttl = true\n", "c.toml:2: ttl takes a duration"),
        ("default_profile = 1\n", "c.toml:1: default_profile takes a profile's name"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(message), "{text:?}: {error}");
    }
}

#[test]
fn an_error_never_contains_a_password() {
    for text in [
        "nodes = {a = \"redis://:hush@h\"}\n",
        "ttl = \"redis://:hush@h\"\nnodes = 1",
        "ttl = \"5redis://:hush@h\"",
        "nodes = \"redis://:hush@h",
        "color = \"redis://:hush@h\"",
        "\"redis://:hush@h\" = 1",
        "require_cluster = \"redis://:hush@h\"",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.contains("hush"), "{text:?}: {error}");
    }
}

#[test]
fn a_list_of_nodes_is_split_before_each_url() {
    assert_eq!(split_nodes("redis://a, redis://b"), ["redis://a", "redis://b"]);
    assert_eq!(
        split_nodes("redis+sentinel://a:1,,b:2/main"),
        ["redis+sentinel://a:1", "", "b:2/main"],
        "the blank entry is kept, so that it is refused later"
    );
    assert_eq!(split_nodes("redis://a,b"), ["redis://a", "b"]);
    assert_eq!(
        split_nodes("redis+sentinel://a:1,b:2/main,redis://c,sqlite:/x"),
        ["redis+sentinel://a:1,b:2/main", "redis://c", "sqlite:/x"]
    );
}

/// Generates configuration files from known pieces and random text.
fn files() -> impl Strategy<Value = String> {
    let known_pieces = [
        "ttl",
        "max_ttl",
        "nodes",
        "username",
        "password",
        "color",
        "danger_trust_restarts",
        "default_profile",
        "profile",
        "key",
        " = ",
        "=",
        "\"20s\"",
        "\"20\"",
        "\"18446744073709551616s\"",
        "\"1e400s\"",
        "-1",
        "1979-05-27T07:32:00Z",
        "true",
        "[",
        "]",
        "[[",
        "]]",
        "[profile.a]",
        "[profile]",
        ".",
        "\n",
        "\n",
        "\n",
        "#",
        "\"\"\"",
        "'''",
        "\"",
        "\\u",
        "{",
        "}",
        ",",
        "\r",
        "\0",
        "inf",
        "0x",
        "\"redis://:pa55w0rd@host\"",
        "\"redis://u:pa55w0rd@\"",
        "\"redis+sentinel://:pa55w0rd@a,b\"",
    ];
    let piece = prop_oneof![14 => select(known_pieces.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_file_is_accepted_or_refused_without_showing_a_password(text in files()) {
        match parse(&text) {
            Ok(file) => for key in KEYS {
                for profile in [None, Some("a")] {
                    if let Some((value, origin)) = file.value(key, profile) {
                        prop_assert!(!format!("{} {origin}", value.show()).contains("pa55w0rd"), "{}", value.show());
                    }
                }
            },
            Err(why) => prop_assert!(!why.contains("pa55w0rd"), "{why}"),
        }
    }
}
