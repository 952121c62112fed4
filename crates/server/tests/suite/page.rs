//! The page in a real browser. `page/claims` has the claims, one for each test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorlock_testkit::{RedisServer, eventually};

use super::auth::{READER, clients};
use crate::service::{Nodes, Service};

/// Runs a claim to its end. `step` carries out each line that the claim prints.
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

/// The folder in which `./x` installs the browser's driver.
fn modules() -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/page");
    let modules = std::env::var_os("QUORLOCK_PAGE_MODULES").map_or(modules, PathBuf::from);
    let driver = modules.join("node_modules/playwright-core");
    assert!(driver.exists(), "{} is missing: ./x test installs it", driver.display());
    modules
}

/// Runs a claim against a service on a file of its own.
fn holds(name: &str) {
    let nodes = Nodes::file().long();
    claim(&nodes.serve(), name, &[], |step| panic!("{name} prints {step}"));
}

/// A service on three servers that can vote.
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
fn hot_spots_show_waiting_times() {
    holds("hot_spots_show_waiting_times");
}

#[test]
fn every_view_and_reason_fits_on_a_phone() {
    holds("every_view_and_reason_fits_on_a_phone");
}

#[test]
fn a_phone_shows_no_keyboard_shortcuts() {
    holds("a_phone_shows_no_keyboard_shortcuts");
}

#[test]
fn no_text_is_cut_off() {
    holds("no_text_is_cut_off");
}

#[test]
fn labels_of_a_chart_do_not_overlap() {
    holds("labels_of_a_chart_do_not_overlap");
}

#[test]
fn a_keyed_lease_lasts_from_its_first_request_to_its_release() {
    holds("a_keyed_lease_lasts_from_its_first_request_to_its_release");
}

#[test]
fn an_unrenewed_lease_is_shown_as_lost() {
    holds("an_unrenewed_lease_is_shown_as_lost");
}

#[test]
fn a_release_is_shown_before_the_next_grant() {
    holds("a_release_is_shown_before_the_next_grant");
}

#[test]
fn gaps_in_the_history_are_shown() {
    holds("gaps_in_the_history_are_shown");
}

#[test]
fn a_free_lock_has_no_holder() {
    holds("a_free_lock_has_no_holder");
}

#[test]
fn break_works_with_confirmation() {
    holds("break_works_with_confirmation");
}

#[test]
fn a_break_shows_the_number_of_holds_it_ends() {
    holds("a_break_shows_the_number_of_holds_it_ends");
}

#[test]
fn a_break_ends_only_the_named_holds() {
    holds("a_break_ends_only_the_named_holds");
}

#[test]
fn a_late_break_must_be_confirmed_again() {
    holds("a_late_break_must_be_confirmed_again");
}

#[test]
fn a_break_dialog_closes_with_its_view() {
    holds("a_break_dialog_closes_with_its_view");
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
fn without_a_majority_the_age_of_the_locks_is_shown() {
    let (nodes, service) = of_three();
    claim(&service, "without_a_majority_the_age_of_the_locks_is_shown", &[], |step| match step {
        "take the majority away" => nodes.servers[..2].iter().for_each(RedisServer::freeze),
        "give it back" => nodes.servers[..2].iter().for_each(RedisServer::thaw),
        step => panic!("it prints {step}"),
    });
}

#[test]
fn unread_locks_are_not_shown_as_free() {
    let nodes = Nodes::uninitialised(3).long();
    let service = nodes.serve();
    eventually("all are in quarantine", || {
        let nodes = service.get("/v1/nodes").body["nodes"].clone();
        nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "quarantined"))
    });
    claim(&service, "unread_locks_are_not_shown_as_free", &[], |step| {
        assert_eq!(step, "declare them");
        nodes.declare();
    });
}

#[test]
fn a_cut_stream_is_shown_and_resumes() {
    holds("a_cut_stream_is_shown_and_resumes");
}

#[test]
fn a_stalled_stream_is_shown() {
    holds("a_stalled_stream_is_shown");
}

#[test]
fn ten_thousand_rows_scroll_smoothly() {
    holds("ten_thousand_rows_scroll_smoothly");
}

#[test]
fn axe_finds_nothing_serious() {
    holds("axe_finds_nothing_serious");
}

#[test]
fn no_lease_id_is_in_the_page() {
    holds("no_lease_id_is_in_the_page");
}

#[test]
fn a_bearer_token_is_kept_only_in_the_tab() {
    let service = Service::with(|config| config.allowed_clients = Some(clients()));
    let name = "a_bearer_token_is_kept_only_in_the_tab";
    claim(&service, name, &[READER], |step| panic!("{name} prints {step}"));
}

#[test]
fn an_unknown_address_opens_the_locks() {
    holds("an_unknown_address_opens_the_locks");
}

#[test]
fn the_keyboard_and_the_address_select_views() {
    holds("the_keyboard_and_the_address_select_views");
}

#[test]
fn foreign_scripts_do_not_run() {
    holds("foreign_scripts_do_not_run");
}
