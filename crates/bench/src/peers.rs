//! Other lock libraries (*peers*). They are fetched from their registries and built when a case needs them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Failure;
use crate::options::Options;
use crate::worker::{Task, Worker};

/// The folder of the peers' packages.
fn peers_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Starts a worker that uses a library from crates.io.
pub(crate) fn rust(peer: &str, task: &Task, options: &Options) -> Result<Worker, Failure> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = BUILT.get_or_init(|| build(&options.folder)).clone()?;
    let mut command = Command::new(program);
    command.arg(peer);
    Worker::start(command, task, options.turn_length)
}

/// Starts a worker that uses node redlock on ioredis.
pub(crate) fn node(task: &Task, options: &Options) -> Result<Worker, Failure> {
    static FETCHED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FETCHED.get_or_init(|| fetch_node(&options.folder.join("node"))).clone()?;
    let mut command = Command::new("node");
    command.arg(folder.join("worker.js"));
    Worker::start(command, task, options.turn_length)
}

/// Installs the versions in the lock file.
fn fetch_node(folder: &Path) -> Result<PathBuf, String> {
    let to_text = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(folder).map_err(to_text)?;
    let lock_file = "package-lock.json";
    let source = peers_folder().join("node").join(lock_file);
    let is_unchanged = std::fs::read(folder.join(lock_file)).ok() == Some(std::fs::read(&source).map_err(to_text)?);
    for file in ["package.json", lock_file, "worker.js"] {
        std::fs::copy(peers_folder().join("node").join(file), folder.join(file)).map_err(to_text)?;
    }
    if !is_unchanged || !folder.join("node_modules/ioredis").is_dir() {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
        run_successfully(npm)?;
    }
    Ok(folder.to_owned())
}

fn build(folder: &Path) -> Result<PathBuf, String> {
    let target = folder.join("peers");
    let build = |features: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--quiet", "--features", features, "--target-dir"]).arg(&target);
        cargo.arg("--manifest-path").arg(peers_folder().join("rust/Cargo.toml"));
        run_successfully(cargo)
    };
    // etcd's client needs the protobuf compiler. Without it, the other peers are still measured.
    build("etcd").or_else(|_| build(""))?;
    Ok(target.join("release/bench-peers"))
}

fn run_successfully(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_owned();
    let program = Path::new(&program).file_name().unwrap_or_default().display();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
