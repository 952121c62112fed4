//! What was counted when somebody last looked, and what is more than that by too much.

use std::path::PathBuf;

use crate::Failure;
use crate::counts::Counts;

/// How much more than what was committed is too much.
const SLACK: f64 = 1.05;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../committed.json")
}

pub(crate) fn write(counts: &Counts) -> Result<(), Failure> {
    Ok(std::fs::write(path(), serde_json::to_string_pretty(counts)? + "\n")?)
}

/// Prints both.
///
/// # Errors
///
/// What there is too much of.
pub(crate) fn compare_with(counts: &Counts) -> Result<(), Failure> {
    let committed: Counts = serde_json::from_slice(&std::fs::read(path())?)?;
    for (what, count) in counts {
        match committed.get(what) {
            Some(before) => {
                println!("{what}: {count:.1} ({before:.1} committed, {:+.1} %)", 100.0 * (count / before - 1.0))
            }
            None => println!("{what}: {count:.1} (nothing committed)"),
        }
    }
    let too_many = too_many(&committed, counts);
    if too_many.is_empty() {
        return Ok(());
    }
    let what = too_many.join(", ");
    Err(format!("more than committed by over 5 %: {what}; if that is meant: ./x bench --quick --commit").into())
}

/// What there is too much of, and what nobody has committed.
fn too_many<'a>(committed: &Counts, counts: &'a Counts) -> Vec<&'a str> {
    let too_much = |(what, count): &(&String, &f64)| committed.get(*what).is_none_or(|before| **count > before * SLACK);
    counts.iter().filter(too_much).map(|(what, _)| what.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_twentieth_more_is_too_much() {
        let counts = |instructions: f64| Counts::from([("memory: instructions".to_owned(), instructions)]);
        assert!(too_many(&counts(100.0), &counts(105.0)).is_empty());
        assert!(too_many(&counts(100.0), &counts(10.0)).is_empty());
        assert_eq!(too_many(&counts(100.0), &counts(106.0)), ["memory: instructions"]);
        assert_eq!(too_many(&Counts::new(), &counts(1.0)), ["memory: instructions"]);
    }
}
