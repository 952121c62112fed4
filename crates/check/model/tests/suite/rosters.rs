//! The quick searches show that the rules about who may vote are sufficient, and that each of them is needed.

use std::fs;
use std::path::Path;

use quorlock_model::roster::{ConfigurationResult, MutantResult};

#[test]
fn the_rules_of_the_roster_are_sufficient_and_each_is_needed_as_on_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/evidence/model.md");
    let page = fs::read_to_string(page).expect("the page of the search");
    let mut results = Vec::new();
    results.extend(
        ConfigurationResult::all(|search| search.is_quick).map(|search| (search.table_row(), search.failure())),
    );
    results.extend(MutantResult::all(|mutant| mutant.is_quick).map(|search| (search.table_row(), search.failure())));
    let mut failures = Vec::new();
    for (line, failure) in results {
        failures.extend(failure);
        if !page.lines().any(|row| row == line) {
            failures.push(format!("the page is out of date, run ./x model --write: {line}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
