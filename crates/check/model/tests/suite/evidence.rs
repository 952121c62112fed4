//! Checks that the evidence page names existing tests and theorems and every searched rule. Checks that the proof's
//! page maps every definition to the code.

use std::fs;
use std::path::Path;

use quorlock_model::scenario::{SCENARIOS, Scenario};

/// The texts between backticks.
fn texts_in_backticks(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

#[test]
fn the_evidence_page_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let mut named_tests = 0;
    for (file, test) in texts_in_backticks(&page).filter_map(|text| text.split_once("::")) {
        let code = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(code.contains(&format!("fn {test}(")), "{file} has no test {test}");
        named_tests += 1;
    }
    assert!(named_tests > 5, "the page names {named_tests} tests only");
}

#[test]
fn the_evidence_page_names_proved_theorems() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let proved = fs::read_to_string(root.join("proof/Assumptions.v")).expect("the list of theorems");
    for theorem in [
        "mutual_exclusion",
        "fences_increase",
        "fences_differ_without_clocks",
        "fences_are_ordered_like_votes",
        "drift_margin",
        "extension_rule",
        "what_a_client_computes_is_backed",
        "the_holder_has_the_highest_fence",
        "slots_bound_the_holders",
        "a_retired_owner_stops",
        "requests_from_before_a_retirement_do_not_count",
    ] {
        assert!(texts_in_backticks(&page).any(|text| text == theorem), "{theorem} is not on the page");
        assert!(proved.contains(&format!(".{theorem}.")), "{theorem} is not proved");
    }
}

/// The cells of a table row.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_evidence_page_lists_every_rule_with_its_counter_example_length() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("docs/evidence.md")).expect("the page of evidence");
    let search_page = fs::read_to_string(root.join("docs/evidence/model.md")).expect("the page of the search");
    for Scenario { rule, mutant, .. } in SCENARIOS {
        let is_row = |row: &&str| cells(row).starts_with(&[*rule, *mutant]);
        let row = search_page.lines().find(is_row).unwrap_or_else(|| panic!("{rule}: not on the page of the search"));
        let wanted = format!("| {rule} | {mutant} | {} |", cells(row)[4]);
        assert!(page.lines().any(|line| line == wanted), "not on the page of evidence: {wanted}");
    }
    let count = format!("all {} in the search", SCENARIOS.len());
    assert!(page.contains(&count), "the page does not say: {count}");
}

/// The names that a file of the proof defines, including its variables, the fields of `state` and the cases of `step`.
fn defined_names(proof: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut in_state, mut in_step) = (false, false);
    for line in proof.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Definition" | "Fixpoint" | "Record" | "Inductive" | "Variable", name, ..] => {
                names.push(name);
                (in_state, in_step) = (name == "state", name == "step");
            }
            [field, ":", ..] if in_state => names.push(field),
            ["|", step, ":", ..] if in_step => names.push(step),
            [first, ..] if first.starts_with("}.") || first == "Lemma" => (in_state, in_step) = (false, false),
            _ => {}
        }
    }
    names
}

/// Whether this line begins the definition of an item, a field or a variant with this name.
fn defines(line: &str, name: &str) -> bool {
    let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty());
    let words: Vec<&str> = words.skip_while(|word| ["pub", "crate", "super"].contains(word)).collect();
    match words[..] {
        ["const", "fn", item, ..] | ["fn" | "struct" | "enum" | "type" | "trait" | "const", item, ..] => item == name,
        [field, ..] => field == name && !line.contains(&format!("{name}.")),
        [] => false,
    }
}

#[test]
fn an_import_or_a_use_is_no_definition() {
    for line in ["pub use plan::Won;", "    let won = Won {", "pub struct WonAgain;", "    self.won(Won, now)"] {
        assert!(!defines(line, "Won"), "{line}");
    }
    for line in ["pub struct Won {", "    Won(Lease),", "    Won,", "pub(crate) const fn Won() {", "    pub Won: u8,"] {
        assert!(defines(line, "Won"), "{line}");
    }
}

#[test]
fn the_proofs_page_maps_every_definition_to_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("proof/README.md")).expect("the proof's page");
    let table = page.split("## Which definition is which code").nth(1).expect("the map").split("\n## ").next();
    let (mut file, mut mapped) = (String::new(), Vec::new());
    for row in table.unwrap_or_default().lines().filter(|line| line.starts_with('|') && line.contains('`')) {
        let [file_cell, definitions, code_cell] = cells(row)[..] else { panic!("not a row of the map: {row}") };
        if let Some(name) = texts_in_backticks(file_cell).next() {
            name.clone_into(&mut file);
        }
        mapped.extend(texts_in_backticks(definitions).map(|definition| (file.clone(), definition)));
        let mut code = String::new();
        for word in texts_in_backticks(code_cell) {
            let path = root.join("crates/core/src").join(word);
            let extension = path.extension().and_then(|extension| extension.to_str());
            if extension == Some("rs") {
                code = fs::read_to_string(path).unwrap_or_else(|error| panic!("{word}: {error}"));
            } else if extension != Some("v") {
                assert!(code.lines().any(|line| defines(line, word)), "{row}: no {word} is defined there");
            }
        }
    }
    let files = ["Majority.v", "Model.v", "Lease.v", "Kinds.v", "Retire.v", "Fence.v", "Validity.v", "Witness.v"];
    for file in files {
        let proof = fs::read_to_string(root.join("proof").join(file)).expect("a file of the proof");
        // `Model.v` defines these parameters, and other files repeat them. The map has them once.
        let repeated_parameters = ["N", "len", "longest", "conflict", "fenced", "owner"];
        for name in
            defined_names(&proof).into_iter().filter(|name| file == "Model.v" || !repeated_parameters.contains(name))
        {
            assert!(mapped.contains(&(file.to_owned(), name)), "{file}: {name} is not in the map");
        }
    }
}
