//! Libraries that are preloaded into a process, to change its view of the machine (clock, disk).

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const PRELOAD: &str = "LD_PRELOAD";

/// The environment variable that preloads this library, in addition to the libraries that this process preloads.
pub(crate) fn preload(shim: &Path) -> (String, String) {
    let shim = path_text(shim);
    let value = match env::var(PRELOAD) {
        Ok(inherited) if !inherited.is_empty() => format!("{shim}:{inherited}"),
        _ => shim,
    };
    (PRELOAD.to_owned(), value)
}

/// Merges the variables of several libraries, so that all of them are loaded.
pub(crate) fn merge_envs(envs: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (key, value) in envs {
        match all.iter_mut().find(|(known, _)| *known == key && key == PRELOAD) {
            Some((_, loaded)) => *loaded = format!("{loaded}:{value}"),
            None => all.push((key, value)),
        }
    }
    all
}

pub(crate) fn path_text(path: &Path) -> String {
    path.to_str().expect("the temporary folder's path is UTF-8").to_owned()
}

/// Compiles a shim, unless a test process has already compiled this source text. Returns the path of the shim.
///
/// The file gets its final name only when it is complete, because other processes may look for it.
pub(crate) fn compile(what: &str, source_text: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    source_text.hash(&mut hasher);
    let name = format!("quorlock-{what}-shim-{:016x}.so", hasher.finish());
    let shim = env::temp_dir().join(name);
    if shim.exists() {
        return shim;
    }

    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let source = folder.path().join("shim.c");
    let object = folder.path().join("shim.so");
    fs::write(&source, source_text).expect("a shim's source can be written");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&object, &source])
        .output()
        .expect("cc is not installed; shims need it");
    assert!(
        output.status.success(),
        "cc could not compile the {what} shim:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&object, &shim).expect("a compiled shim can be moved into place");
    shim
}
