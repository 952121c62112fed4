//! Stores the committed counts, and checks whether new counts exceed them.

use std::path::PathBuf;

use crate::Failure;
use crate::counts::Counts;

/// A count may be at most this factor higher than the committed count.
const SLACK: f64 = 1.05;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../committed.json")
}

pub(crate) fn write(counts: &Counts) -> Result<(), Failure> {
    Ok(std::fs::write(path(), serde_json::to_string_pretty(counts)? + "\n")?)
}

/// Prints each count and its committed count.
///
/// # Errors
///
/// When a count exceeds its committed count by more than 5 %.
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
    let exceeding_counts = exceeding_counts(&committed, counts);
    if exceeding_counts.is_empty() {
        return Ok(());
    }
    let what = exceeding_counts.join(", ");
    Err(format!("over 5 % more than the committed counts: {what}; if this is intended, run ./x bench --quick --commit")
        .into())
}

/// The names of the counts that are too high or not committed yet.
fn exceeding_counts<'a>(committed: &Counts, counts: &'a Counts) -> Vec<&'a str> {
    let is_exceeded =
        |(what, count): &(&String, &f64)| committed.get(*what).is_none_or(|before| **count > before * SLACK);
    counts.iter().filter(is_exceeded).map(|(what, _)| what.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_twentieth_more_is_too_much() {
        let counts = |instructions: f64| Counts::from([("memory: instructions".to_owned(), instructions)]);
        assert!(exceeding_counts(&counts(100.0), &counts(105.0)).is_empty());
        assert!(exceeding_counts(&counts(100.0), &counts(10.0)).is_empty());
        assert_eq!(exceeding_counts(&counts(100.0), &counts(106.0)), ["memory: instructions"]);
        assert_eq!(exceeding_counts(&Counts::new(), &counts(1.0)), ["memory: instructions"]);
    }
}
