//! Checks that each module of the library imports only modules of lower layers, as ARCHITECTURE.md says, and that core
//! has no import cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The modules from the top down. Each module may import only modules that follow it in this list.
const LAYERS: [&str; 8] = ["api", "lease", "detached", "cluster", "link", "node", "platform", "error"];
/// Modules for tests and fuzzers. They may import everything.
const UNORDERED: [&str; 2] = ["fuzzing", "imports"];

/// For each module, the paths that its code imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules of a folder, with the paths after `crate::` in their code. Skips tests and comments. A subfolder
/// belongs to the module of the same name.
fn read_imports(folder: &Path) -> Imports {
    let mut imports = Imports::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module != "lib" && module != "tests" && (path.is_dir() || path.extension().is_some_and(|name| name == "rs"))
        {
            add_imports(&path, imports.entry(module).or_default());
        }
    }
    imports
}

/// Adds the imports of a file, or of all files in a folder.
fn add_imports(path: &Path, found: &mut BTreeSet<String>) {
    if path.file_stem().is_some_and(|stem| stem == "tests") {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add_imports(&entry.unwrap().path(), found);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    for rest in lines.collect::<String>().split("crate::").skip(1) {
        let paths = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap(),
            None => rest.split(',').next().unwrap(),
        };
        let is_path = |c: &char| c.is_alphanumeric() || matches!(c, '_' | ':');
        found.extend(paths.split(',').map(|path| path.trim().chars().take_while(is_path).collect::<String>()));
    }
}

/// Returns the module that a path after `crate::` starts with. A type at the crate's root belongs to the public API. A
/// path is empty if a macro follows `crate::`; it also counts as the public API.
fn module_of(path: &str) -> &str {
    let first = path.split("::").next().unwrap();
    if first.is_empty() || first.starts_with(char::is_uppercase) { "api" } else { first }
}

#[test]
fn the_library_imports_only_lower_layers() {
    let rank = |module: &str| LAYERS.iter().position(|layer| *layer == module);
    for (module, imported) in read_imports(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        if UNORDERED.contains(&&*module) {
            continue;
        }
        let own_rank =
            rank(&module).unwrap_or_else(|| panic!("{module} has no layer: add it to LAYERS and ARCHITECTURE.md"));
        for other in imported.iter().map(|path| module_of(path)).filter(|other| *other != module) {
            let is_below = rank(other).is_some_and(|rank| rank > own_rank);
            assert!(is_below, "{module} imports crate::{other}, which is not below it");
        }
    }
}

/// A module of core is a file of `src` with its folder. Within `node`, each file is a module.
#[test]
fn core_has_no_import_cycles() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let mut modules = read_imports(&source);
    let mut node = BTreeSet::new();
    for (part, imported) in read_imports(&source.join("node")) {
        node.insert(format!("node::{part}"));
        modules.insert(format!("node::{part}"), imported);
    }
    modules.insert("node".into(), node);
    let names: BTreeSet<String> = modules.keys().cloned().collect();
    let core_module_of = |path: &str| {
        let parts: Vec<&str> = path.split("::").collect();
        let name = parts[..parts.len().min(2)].join("::");
        if names.contains(&name) { name } else { parts[0].to_owned() }
    };
    for (module, imported) in &mut modules {
        *imported = imported.iter().map(|path| core_module_of(path)).filter(|other| other != module).collect();
    }
    // Remove every module that imports none of the remaining modules: such a module is in no cycle.
    while let Some(module) = modules.iter().find(|(_, imported)| imported.is_empty()).map(|(name, _)| name.clone()) {
        modules.remove(&module);
        for imported in modules.values_mut() {
            imported.remove(&module);
        }
    }
    assert!(modules.is_empty(), "import cycles among {modules:#?}");
}
