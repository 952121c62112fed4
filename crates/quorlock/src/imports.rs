//! Checks that modules import in one direction only, as ARCHITECTURE.md says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// From the top down: each module may import those after it.
const LAYERS: [&str; 8] = ["api", "lease", "detached", "cluster", "link", "node", "platform", "error"];
/// Only for tests and fuzzers, above everything.
const UNORDERED: [&str; 2] = ["fuzzing", "imports"];

/// The top-level modules of a crate, each with the top-level modules that its code imports.
fn imports(source: &Path) -> Vec<(String, BTreeSet<String>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") && module != "lib" {
            let mut found = BTreeSet::new();
            read(&path, &mut found);
            found.remove(&module);
            all.push((module, found));
        }
    }
    all
}

/// Adds the modules that a file, or the files of a folder, name by `crate::`. Tests and comments do not count.
fn read(path: &Path, found: &mut BTreeSet<String>) {
    if path.file_stem().is_some_and(|stem| stem == "tests") {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            read(&entry.unwrap().path(), found);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    for rest in lines.collect::<String>().split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap(),
            None => rest.split(',').next().unwrap(),
        };
        for name in names.split(',') {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            // The crate's root re-exports what users see. A name that is empty is a macro's argument.
            found.insert(if name.is_empty() || name.starts_with(char::is_uppercase) { "api".into() } else { name });
        }
    }
}

#[test]
fn the_library_imports_downwards_only() {
    let rank = |module: &str| LAYERS.iter().position(|layer| *layer == module);
    for (module, imported) in imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        if UNORDERED.contains(&&*module) {
            continue;
        }
        let own =
            rank(&module).unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS and ARCHITECTURE.md"));
        for other in imported {
            let is_below = rank(&other).is_some_and(|other| other > own);
            assert!(is_below, "{module} imports crate::{other}, which is not below it");
        }
    }
}
