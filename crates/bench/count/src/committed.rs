//! The committed counts, to which new counts are compared.

use std::path::PathBuf;

use crate::Failure;
use crate::counts::Counts;

/// A count may be at most this factor higher than the committed count.
const FACTOR_MAX: f64 = 1.05;

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
    for (name, count) in counts {
        match committed.get(name) {
            Some(committed_count) => {
                println!(
                    "{name}: {count:.1} ({committed_count:.1} committed, {:+.1} %)",
                    100.0 * (count / committed_count - 1.0)
                )
            }
            None => println!("{name}: {count:.1} (nothing committed)"),
        }
    }
    let exceeding_counts = exceeding_counts(&committed, counts);
    if exceeding_counts.is_empty() {
        return Ok(());
    }
    let names = exceeding_counts.join(", ");
    Err(format!(
        "over 5 % more than the committed counts: {names}; if this is intended, run ./x bench --quick --commit"
    )
    .into())
}

/// The names of the counts that are too high or not committed yet.
fn exceeding_counts<'a>(committed: &Counts, counts: &'a Counts) -> Vec<&'a str> {
    let is_exceeded = |(name, count): &(&String, &f64)| {
        committed.get(*name).is_none_or(|committed_count| **count > committed_count * FACTOR_MAX)
    };
    counts.iter().filter(is_exceeded).map(|(name, _)| name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_exceed_the_committed_count_by_a_twentieth() {
        let counts = |instructions: f64| Counts::from([("memory: instructions".to_owned(), instructions)]);
        assert!(exceeding_counts(&counts(100.0), &counts(105.0)).is_empty());
        assert!(exceeding_counts(&counts(100.0), &counts(10.0)).is_empty());
        assert_eq!(exceeding_counts(&counts(100.0), &counts(106.0)), ["memory: instructions"]);
        assert_eq!(exceeding_counts(&Counts::new(), &counts(1.0)), ["memory: instructions"]);
    }
}
