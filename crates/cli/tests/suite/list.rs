//! `quorlock list`: the names that have holders or waiters.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;

use crate::common::{User, assert_fails, start_cluster, stderr, stdout};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn names(listing: &Value) -> Vec<&str> {
    listing["names"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

/// Runs a check with an SQLite file, with one server and with three servers as the nodes.
fn on_file_and_servers(check: impl Fn(&User, &[&str], usize)) {
    for size in [0, 1, 3] {
        let user = User::new();
        let (_servers, nodes) = match size {
            0 => (Vec::new(), format!("sqlite:{}", user.home.path().join("locks.db").display())),
            size => start_cluster(&user, size),
        };
        check(&user, &["--nodes", &nodes], size.max(1));
    }
}

#[test]
fn held_locks_are_listed_with_their_holders() {
    on_file_and_servers(|user, node_flags, nodes| {
        let run = |arguments: &[&str]| user.run(&[arguments, node_flags].concat());
        let empty_listing = run(&["list"]);
        assert_eq!((stdout(&empty_listing).as_str(), empty_listing.status.code()), ("", Some(0)));
        assert!(stderr(&empty_listing).contains("no lock is held or waited for"), "{}", stderr(&empty_listing));
        for name in ["invoices/1", "invoices/22", "orders/1"] {
            assert!(run(&["acquire", name, "--label", "us"]).status.success());
        }
        assert!(run(&["run", "done", "--", "true"]).status.success());
        let text = stdout(&run(&["list"]));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("NAME ") && lines[0].ends_with("NODES"), "{text}");
        assert_eq!(lines.len(), 4, "{text}");
        for (line, name) in lines[1..].iter().zip(["invoices/1", "invoices/22", "orders/1"]) {
            assert!(line.starts_with(name) && line.contains(", us)"), "{line}");
            assert!(line.ends_with(&format!("{nodes}/{nodes}")), "{line}");
        }
        let detailed = stdout(&run(&["list", "-v"]));
        assert_eq!(detailed.lines().count(), 4 + 3 * nodes, "{detailed}");
        let listing = json(&stdout(&run(&["list", "invoices/*", "--json"])));
        assert_eq!((&listing["v"], &listing["truncated"]), (&1.into(), &false.into()));
        assert_eq!(names(&listing), ["invoices/1", "invoices/22"]);
        assert_eq!(listing["names"][0]["nodes"].as_array().unwrap().len(), nodes);
        assert_eq!(names(&json(&stdout(&run(&["list", "*/?", "--json"])))), ["invoices/1", "orders/1"]);
    });
}

#[test]
fn a_truncated_listing_is_marked() {
    on_file_and_servers(|user, node_flags, _| {
        let run = |arguments: &[&str]| user.run(&[arguments, node_flags].concat());
        for name in ["a", "b", "c"] {
            assert!(run(&["acquire", name]).status.success());
        }
        let truncated = run(&["list", "--limit", "2"]);
        assert_eq!(stdout(&truncated).lines().count(), 3);
        assert!(stderr(&truncated).contains("there are more locks"), "{}", stderr(&truncated));
        assert_eq!(json(&stdout(&run(&["list", "--limit", "2", "--json"])))["truncated"], true);
        assert_eq!(json(&stdout(&run(&["list", "--limit", "3", "--json"])))["truncated"], false);
        for limit in ["0", "10001"] {
            assert_fails(&run(&["list", "--limit", limit]), 64, "between 1 and 10000");
        }
    });
}

#[test]
fn an_unreachable_node_is_named_in_a_listing() {
    let user = User::new();
    let (servers, nodes) = start_cluster(&user, 3);
    let run = |arguments: &[&str]| user.run(&[arguments, &["--nodes", &nodes]].concat());
    assert!(run(&["acquire", "a"]).status.success());
    servers[0].kill();
    let output = run(&["list"]);
    assert!(output.status.success() && stdout(&output).contains("a "), "{}", stdout(&output));
    assert!(stderr(&output).contains("was not searched: unreachable"), "{}", stderr(&output));
    let listing = json(&stdout(&run(&["list", "--json"])));
    assert_eq!(listing["missing"].as_array().unwrap().len(), 1, "{listing}");
    servers[1].kill();
    assert_fails(&run(&["list"]), 69, "no quorum for a listing");
}
