//! The page of evidence names tests and theorems that exist, and every rule that is searched.

use std::fs;
use std::path::Path;

use quorlock_sim::scenario::{ALL, Scenario};

/// What stands between backticks.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

#[test]
fn the_page_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let mut named = 0;
    for (file, test) in quoted(&page).filter_map(|text| text.split_once("::")) {
        let code = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(code.contains(&format!("fn {test}(")), "{file} has no test {test}");
        named += 1;
    }
    assert!(named > 5, "the page names {named} tests only");
}

#[test]
fn the_page_names_theorems_that_are_proved() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let proved = fs::read_to_string(root.join("proof/Assumptions.v")).expect("the list of theorems");
    for theorem in [
        "mutual_exclusion",
        "fences_increase",
        "fences_differ_without_clocks",
        "fences_are_ordered_like_votes",
        "drift_margin",
        "extension_rule",
        "the_holder_has_the_highest_fence",
        "slots_bound_the_holders",
    ] {
        assert!(quoted(&page).any(|text| text == theorem), "{theorem} is not on the page");
        assert!(proved.contains(&format!(".{theorem}.")), "{theorem} is not proved");
    }
}

/// The cells of a row of a table.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_page_lists_every_rule_with_the_length_that_was_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let found = fs::read_to_string(root.join("docs/evidence/model.md")).expect("the page of the search");
    for Scenario { rule, mutant, .. } in ALL {
        let is_row = |row: &&str| cells(row).starts_with(&[*rule, *mutant]);
        let row = found.lines().find(is_row).unwrap_or_else(|| panic!("{rule}: not on the page of the search"));
        let wanted = format!("| {rule} | {mutant} | {} |", cells(row)[4]);
        assert!(page.lines().any(|line| line == wanted), "not on the page of evidence: {wanted}");
    }
    let count = format!("all {} in the search", ALL.len());
    assert!(page.contains(&count), "the page does not say: {count}");
}
