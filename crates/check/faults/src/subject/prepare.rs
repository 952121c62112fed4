//! Builds or fetches the controls when a run needs them. No part of quorlock depends on them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Program, Subject};
use crate::Failure;

/// The sources of the controls.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/controls");
/// The build folder, unless `CARGO_TARGET_DIR` names another one.
const DEFAULT_TARGET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target");
const NODE_PACKAGES: [&str; 2] = ["@sesamecare-oss/redlock", "ioredis"];

/// Builds the client that uses rslock.
pub(super) fn rslock() -> Result<Program, Failure> {
    let source = Path::new(SOURCES).join("rslock");
    let target = build_folder("rslock")?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--quiet", "--manifest-path"]).arg(source.join("Cargo.toml"));
    run(build.arg("--target-dir").arg(&target))?;
    let lock = fs::read_to_string(source.join("Cargo.lock"))?;
    let version = format!("rslock {} on redis {}", locked_version(&lock, "rslock")?, locked_version(&lock, "redis")?);
    let file = target.join("release/faults-control-rslock").into();
    Ok(Program { subject: Subject::Rslock, version, is_uncontended: false, file, args: Vec::new() })
}

/// Fetches node-redlock, and copies the client next to it.
pub(super) fn node_redlock() -> Result<Program, Failure> {
    let (source, folder) = (Path::new(SOURCES).join("node-redlock"), build_folder("node-redlock")?);
    for file in ["package.json", "package-lock.json", "worker.js"] {
        fs::copy(source.join(file), folder.join(file))?;
    }
    let npm = ["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    run(Command::new("npm").args(npm).current_dir(&folder))?;
    let mut version = format!("Node.js {}", output(Command::new("node").arg("--version"))?);
    for package in NODE_PACKAGES.iter().rev() {
        let manifest = fs::read_to_string(folder.join("node_modules").join(package).join("package.json"))?;
        let manifest: serde_json::Value = serde_json::from_str(&manifest)?;
        version = format!("{package} {} on {version}", manifest["version"].as_str().unwrap_or("of unknown version"));
    }
    let args = vec![folder.join("worker.js").into()];
    Ok(Program {
        subject: Subject::NodeRedlock,
        version,
        is_uncontended: false,
        file: find_in_path("node")?.into(),
        args,
    })
}

/// The folder in which a control is built.
fn build_folder(name: &str) -> Result<PathBuf, Failure> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| DEFAULT_TARGET.into(), PathBuf::from);
    let folder = target.join("controls").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder.canonicalize()?)
}

/// The version of a package in a Cargo lock file.
fn locked_version<'a>(lock: &'a str, package: &str) -> Result<&'a str, Failure> {
    let (_, rest) =
        lock.split_once(&format!("name = \"{package}\"\nversion = \"")).ok_or("the package is not in the lock file")?;
    Ok(rest.split('"').next().unwrap_or_default())
}

fn find_in_path(program: &str) -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let file = env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    file.ok_or_else(|| format!("{program} is not installed").into())
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// The output of a program, without the trailing newline.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
