//! A clean build of a program that uses only the library: the number of its crates, and the time of the build.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Contender, Figures, Limit};
use crate::options::Options;

const NAME: &str = "build";
const CRATES: &str = "crates";
const SECONDS: &str = "seconds";
const OURS: &str = "ours";
/// Two thirds of the 88 crates that the library had at first.
const CRATES_MAX: f64 = 58.0;

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new(NAME, set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quorlock");
    let mut case = Case::new(NAME, "A clean build of a program that uses only the library", CRATES);
    case.about = "The number of crates that cargo compiles for a release build, and the time of the build.".into();
    let folder = tempfile::tempdir_in(&options.folder)?;
    let ours = format!("quorlock = {{ path = '{}' }}", library.canonicalize()?.display());
    case.add(OURS, Build::new(folder.path().join("ours"), &ours)?);
    let rslock = r#"rslock = { version = "=0.10.0", features = ["tokio-comp"] }"#;
    case.add_optional("rslock", Build::new(folder.path().join("rslock"), rslock));
    case.keep_alive(folder);
    case.turns = Some(1);
    case.bars.push(Bar::figure(OURS, CRATES, Limit::AtMost(CRATES_MAX)));
    Ok(case)
}

/// A package with one dependency, which cargo builds from scratch.
struct Build {
    folder: PathBuf,
}

impl Build {
    fn new(folder: PathBuf, dependency: &str) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder.join("src"))?;
        // The empty workspace keeps the package out of this repository's workspace.
        let manifest =
            "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n";
        std::fs::write(folder.join("Cargo.toml"), format!("{manifest}{dependency}\n"))?;
        std::fs::write(folder.join("src/main.rs"), "fn main() {\n    println!(\"hello\");\n}\n")?;
        Ok(Self { folder })
    }

    fn cargo(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(&self.folder).env("CARGO_TARGET_DIR", self.folder.join("target"));
        let output = cargo.output()?;
        if !output.status.success() {
            return Err(format!("cargo {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Contender for Build {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let tree =
            self.cargo(&["tree", "--quiet", "--edges=normal,build", "--prefix=none", "--no-dedupe", "--format={p}"])?;
        let crates: BTreeSet<&str> = tree.lines().filter(|line| !line.starts_with("hello ")).collect();
        self.cargo(&["clean", "--quiet"])?;
        let begun = Instant::now();
        self.cargo(&["build", "--quiet", "--release"])?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Figures::from([(CRATES.to_owned(), crates.len() as f64), (SECONDS.to_owned(), seconds)]))
    }
}
