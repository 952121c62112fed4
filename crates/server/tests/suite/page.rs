//! The page, in a real browser: what is claimed of it is in `page/claims`, one claim a test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorlock_testkit::{RedisServer, eventually};

use super::auth::{READER, clients};
use crate::service::{Nodes, Service};

/// Runs a claim to its end. Each line that it prints is a step for `step` to do.
fn claim(service: &Service, name: &str, more: &[&str], mut step: impl FnMut(&str)) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/page/claims.mjs");
    let mut command = Command::new("node");
    command.arg(script).args([name, &service.address]).args(more).env("QUORLOCK_PAGE_MODULES", modules());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("node is missing: ./x test installs it");
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for line in BufReader::new(stdout).lines() {
        step(&line.unwrap());
        stdin.write_all(b"done\n").unwrap();
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Where `./x` puts what the browser is driven with.
fn modules() -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/page");
    let modules = std::env::var_os("QUORLOCK_PAGE_MODULES").map_or(modules, PathBuf::from);
    let driver = modules.join("node_modules/playwright-core");
    assert!(driver.exists(), "{} is missing: ./x test installs it", driver.display());
    modules
}

/// Of a service over a file of its own.
fn holds(name: &str) {
    let nodes = Nodes::file().long();
    claim(&nodes.serve(), name, &[], |step| panic!("{name} prints {step}"));
}

/// A service over three servers, all of which vote.
fn of_three() -> (Nodes, Service) {
    let nodes = Nodes::uninitialised(3).long().init();
    let service = nodes.serve();
    eventually("all can vote", || service.get("/v1/nodes").body["voting"] == 3);
    (nodes, service)
}

#[test]
fn locks_appear_and_count_down() {
    holds("locks_appear_and_count_down");
}

#[test]
fn waiters_move() {
    holds("waiters_move");
}

#[test]
fn hot_spots_tell_how_long_was_waited() {
    holds("hot_spots_tell_how_long_was_waited");
}

#[test]
fn a_phone_has_room_for_every_view_and_tells_why() {
    holds("a_phone_has_room_for_every_view_and_tells_why");
}

#[test]
fn a_phone_is_told_of_no_keys() {
    holds("a_phone_is_told_of_no_keys");
}

#[test]
fn every_word_has_room() {
    holds("every_word_has_room");
}

#[test]
fn words_of_a_chart_do_not_meet() {
    holds("words_of_a_chart_do_not_meet");
}

#[test]
fn a_keyed_lease_is_held_from_its_first_try_to_its_release() {
    holds("a_keyed_lease_is_held_from_its_first_try_to_its_release");
}

#[test]
fn a_lease_that_nobody_renews_is_among_the_losses() {
    holds("a_lease_that_nobody_renews_is_among_the_losses");
}

#[test]
fn a_lock_is_let_go_before_it_is_granted_again() {
    holds("a_lock_is_let_go_before_it_is_granted_again");
}

#[test]
fn what_is_missing_in_the_history_is_shown() {
    holds("what_is_missing_in_the_history_is_shown");
}

#[test]
fn of_a_free_lock_it_is_said_that_nobody_holds_it() {
    holds("of_a_free_lock_it_is_said_that_nobody_holds_it");
}

#[test]
fn break_works_with_confirmation() {
    holds("break_works_with_confirmation");
}

#[test]
fn a_break_says_how_many_holds_it_ends() {
    holds("a_break_says_how_many_holds_it_ends");
}

#[test]
fn a_break_is_for_those_who_were_named() {
    holds("a_break_is_for_those_who_were_named");
}

#[test]
fn a_break_that_comes_too_late_is_asked_anew() {
    holds("a_break_that_comes_too_late_is_asked_anew");
}

#[test]
fn a_break_is_not_asked_for_in_another_view() {
    holds("a_break_is_not_asked_for_in_another_view");
}

#[test]
fn a_node_in_quarantine_is_visible() {
    let (nodes, service) = of_three();
    claim(&service, "a_node_in_quarantine_is_visible", &[], |step| {
        assert_eq!(step, "restart a node");
        nodes.servers[1].kill();
        nodes.servers[1].restart();
    });
}

#[test]
fn without_a_majority_it_is_said_how_old_the_locks_are() {
    let (nodes, service) = of_three();
    claim(&service, "without_a_majority_it_is_said_how_old_the_locks_are", &[], |step| match step {
        "take the majority away" => nodes.servers[..2].iter().for_each(RedisServer::freeze),
        "give it back" => nodes.servers[..2].iter().for_each(RedisServer::thaw),
        step => panic!("it prints {step}"),
    });
}

#[test]
fn of_locks_that_were_never_seen_nothing_is_said() {
    let nodes = Nodes::uninitialised(3).long();
    let service = nodes.serve();
    eventually("all are in quarantine", || {
        let nodes = service.get("/v1/nodes").body["nodes"].clone();
        nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "quarantined"))
    });
    claim(&service, "of_locks_that_were_never_seen_nothing_is_said", &[], |step| {
        assert_eq!(step, "declare them");
        nodes.declare();
    });
}

#[test]
fn a_stream_that_is_cut_says_so_and_comes_back() {
    holds("a_stream_that_is_cut_says_so_and_comes_back");
}

#[test]
fn a_stream_that_stalls_says_so() {
    holds("a_stream_that_stalls_says_so");
}

#[test]
fn ten_thousand_rows_scroll_smoothly() {
    holds("ten_thousand_rows_scroll_smoothly");
}

#[test]
fn nothing_serious_is_found_by_axe() {
    holds("nothing_serious_is_found_by_axe");
}

#[test]
fn no_lease_id_is_in_the_page() {
    holds("no_lease_id_is_in_the_page");
}

#[test]
fn a_bearer_token_is_asked_for_and_kept_in_the_tab_only() {
    let service = Service::with(|config| config.clients = Some(clients()));
    let name = "a_bearer_token_is_asked_for_and_kept_in_the_tab_only";
    claim(&service, name, &[READER], |step| panic!("{name} prints {step}"));
}

#[test]
fn an_address_that_leads_nowhere_leads_to_the_locks() {
    holds("an_address_that_leads_nowhere_leads_to_the_locks");
}

#[test]
fn keys_move_through_the_views_and_the_address_holds_them() {
    holds("keys_move_through_the_views_and_the_address_holds_them");
}

#[test]
fn nothing_that_is_not_the_pages_own_runs() {
    holds("nothing_that_is_not_the_pages_own_runs");
}
