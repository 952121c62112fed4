//! Tests of the page in a real browser. Each test runs one claim: a function in `page/claims` with the same name.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorlock_testkit::{RedisServer, eventually};

use super::auth::{READER_TOKEN, clients};
use crate::service::{Nodes, Service};

/// Runs a claim with these arguments. Whenever the claim prints a line, calls `step` with the line.
fn run_claim_with(service: &Service, name: &str, arguments: &[&str], mut step: impl FnMut(&str)) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/page/claims.mjs");
    let mut command = Command::new("node");
    command.arg(script).args([name, &service.address]).args(arguments).env("QUORLOCK_PAGE_MODULES", modules());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("node is not installed: run ./x test, which installs it");
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for line in BufReader::new(stdout).lines() {
        step(&line.unwrap());
        stdin.write_all(b"done\n").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the folder in which `./x` installs the driver of the browser.
fn modules() -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/page");
    let modules = std::env::var_os("QUORLOCK_PAGE_MODULES").map_or(modules, PathBuf::from);
    let driver = modules.join("node_modules/playwright-core");
    assert!(driver.exists(), "{} is not installed: run ./x test, which installs it", driver.display());
    modules
}

/// Runs a claim with a new service that uses a new file.
fn run_claim(name: &str) {
    let nodes = Nodes::new_file().allow_long_leases();
    run_claim_with(&nodes.serve(), name, &[], |step| panic!("{name} prints {step}"));
}

/// Starts a service on three servers that can vote.
fn serve_on_three_servers() -> (Nodes, Service) {
    let nodes = Nodes::start_uninitialized(3).allow_long_leases().initialize();
    let service = nodes.serve();
    eventually("all nodes can vote", || service.get("/v1/nodes").body["voting"] == 3);
    (nodes, service)
}

#[test]
fn locks_appear_and_count_down() {
    run_claim("locks_appear_and_count_down");
}

#[test]
fn waiters_move_up_in_the_queue() {
    run_claim("waiters_move_up_in_the_queue");
}

#[test]
fn hot_spots_show_waiting_times() {
    run_claim("hot_spots_show_waiting_times");
}

#[test]
fn every_view_and_reason_fits_on_a_phone() {
    run_claim("every_view_and_reason_fits_on_a_phone");
}

#[test]
fn a_phone_shows_no_keyboard_shortcuts() {
    run_claim("a_phone_shows_no_keyboard_shortcuts");
}

#[test]
fn no_text_is_cut_off() {
    run_claim("no_text_is_cut_off");
}

#[test]
fn labels_of_a_chart_do_not_overlap() {
    run_claim("labels_of_a_chart_do_not_overlap");
}

#[test]
fn a_keyed_lease_lasts_from_its_first_request_to_its_release() {
    run_claim("a_keyed_lease_lasts_from_its_first_request_to_its_release");
}

#[test]
fn an_expired_lease_is_shown_as_lapsed() {
    run_claim("an_expired_lease_is_shown_as_lapsed");
}

#[test]
fn a_release_is_shown_before_the_next_grant() {
    run_claim("a_release_is_shown_before_the_next_grant");
}

#[test]
fn gaps_in_the_history_are_shown() {
    run_claim("gaps_in_the_history_are_shown");
}

#[test]
fn a_free_lock_has_no_holder() {
    run_claim("a_free_lock_has_no_holder");
}

#[test]
fn a_break_needs_a_reason_and_the_name_of_the_lock() {
    run_claim("a_break_needs_a_reason_and_the_name_of_the_lock");
}

#[test]
fn a_break_shows_the_number_of_holds_it_ends() {
    run_claim("a_break_shows_the_number_of_holds_it_ends");
}

#[test]
fn a_break_ends_only_the_named_holds() {
    run_claim("a_break_ends_only_the_named_holds");
}

#[test]
fn a_break_of_an_old_lease_fails_and_must_be_confirmed_again() {
    run_claim("a_break_of_an_old_lease_fails_and_must_be_confirmed_again");
}

#[test]
fn a_break_dialog_closes_with_its_view() {
    run_claim("a_break_dialog_closes_with_its_view");
}

#[test]
fn a_node_in_quarantine_is_visible() {
    let (nodes, service) = serve_on_three_servers();
    run_claim_with(&service, "a_node_in_quarantine_is_visible", &[], |step| {
        assert_eq!(step, "restart a node");
        nodes.servers[1].kill();
        nodes.servers[1].restart();
    });
}

#[test]
fn without_a_majority_the_age_of_the_locks_is_shown() {
    let (nodes, service) = serve_on_three_servers();
    run_claim_with(&service, "without_a_majority_the_age_of_the_locks_is_shown", &[], |step| match step {
        "freeze two nodes" => nodes.servers[..2].iter().for_each(RedisServer::freeze),
        "resume the nodes" => nodes.servers[..2].iter().for_each(RedisServer::thaw),
        step => panic!("the claim prints {step}"),
    });
}

#[test]
fn unread_locks_are_not_shown_as_free() {
    let nodes = Nodes::start_uninitialized(3).allow_long_leases();
    let service = nodes.serve();
    eventually("all nodes are in quarantine", || {
        let nodes = service.get("/v1/nodes").body["nodes"].clone();
        nodes.as_array().is_some_and(|nodes| nodes.iter().all(|node| node["state"] == "quarantined"))
    });
    run_claim_with(&service, "unread_locks_are_not_shown_as_free", &[], |step| {
        assert_eq!(step, "initialize the cluster");
        nodes.init_cluster();
    });
}

#[test]
fn a_lost_connection_is_shown_and_the_stream_resumes() {
    run_claim("a_lost_connection_is_shown_and_the_stream_resumes");
}

#[test]
fn a_stalled_stream_is_shown() {
    run_claim("a_stalled_stream_is_shown");
}

#[test]
fn ten_thousand_rows_scroll_smoothly() {
    run_claim("ten_thousand_rows_scroll_smoothly");
}

#[test]
fn axe_finds_no_serious_problem() {
    run_claim("axe_finds_no_serious_problem");
}

#[test]
fn no_lease_id_is_in_the_page() {
    run_claim("no_lease_id_is_in_the_page");
}

#[test]
fn a_bearer_token_is_kept_only_in_the_tab() {
    let service = Service::with_settings(|config| config.allowed_clients = Some(clients()));
    let name = "a_bearer_token_is_kept_only_in_the_tab";
    run_claim_with(&service, name, &[READER_TOKEN], |step| panic!("{name} prints {step}"));
}

#[test]
fn an_unknown_address_opens_the_locks() {
    run_claim("an_unknown_address_opens_the_locks");
}

#[test]
fn the_keyboard_and_the_address_select_views() {
    run_claim("the_keyboard_and_the_address_select_views");
}

#[test]
fn foreign_scripts_do_not_run() {
    run_claim("foreign_scripts_do_not_run");
}
