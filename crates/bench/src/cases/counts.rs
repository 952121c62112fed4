//! What a cycle takes of a processor and an allocator: the same however busy the machine is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Planned;
use crate::Failure;
use crate::case::{Case, Contender, Figures};
use crate::options::Options;

const NAME: &str = "counts";

const ABOUT: &str = "One caller on one thread, by callgrind and a counting allocator; what runs in the servers and in the \
    kernel is not among it. These are what `./x bench --quick` compares with the committed ones.";

pub(crate) fn planned() -> Vec<Planned> {
    vec![Planned::new(NAME, set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let mut case = Case::new(NAME, "Instructions and allocations of one acquire and release", "instructions");
    case.about = ABOUT.into();
    case.turns = Some(1);
    for (who, figures) in count(&build(&options.folder.join("count"))?)? {
        case.add(who, Counted(figures));
    }
    Ok(case)
}

/// Counted once, as it does not change from turn to turn.
struct Counted(Figures);

impl Contender for Counted {
    fn turn(&mut self) -> Result<Figures, Failure> {
        Ok(self.0.clone())
    }
}

/// By what was counted and where, from `5 nodes, plain: instructions` and so on.
fn count(program: &Path) -> Result<BTreeMap<String, Figures>, Failure> {
    let output = Command::new(program).arg("--json").output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let counts: BTreeMap<String, f64> = serde_json::from_slice(&output.stdout)?;
    let mut contenders = BTreeMap::<String, Figures>::new();
    for (what, count) in counts {
        let (who, figure) = what.split_once(": ").ok_or("a count without a name")?;
        contenders.entry(who.to_owned()).or_default().insert(figure.to_owned(), count);
    }
    Ok(contenders)
}

/// From a package of its own, with the versions that are locked there.
fn build(target: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--locked", "--manifest-path"]);
    cargo.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("count/Cargo.toml")).arg("--target-dir").arg(target);
    // As ./x bench --quick builds it.
    match cargo.env("CARGO_INCREMENTAL", "0").status()? {
        status if status.success() => Ok(target.join("release/quorlock-count")),
        status => Err(format!("quorlock-count cannot be built: {status}").into()),
    }
}
