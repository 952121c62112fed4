//! The committed counts, and whether new counts exceed them.

use std::path::PathBuf;

use crate::Failure;
use crate::counts::Counts;

/// The factor by which a count may exceed the committed one.
const SLACK: f64 = 1.05;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../committed.json")
}

pub(crate) fn write(counts: &Counts) -> Result<(), Failure> {
    Ok(std::fs::write(path(), serde_json::to_string_pretty(counts)? + "\n")?)
}

/// Prints both counts.
///
/// # Errors
///
/// When a count exceeds the committed one by too much.
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
    Err(format!("over 5 % more than the committed counts: {what}; if this is intended, run ./x bench --quick --commit")
        .into())
}

/// The names of the counts that are too high or not committed yet.
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
