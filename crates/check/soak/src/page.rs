//! The page about one soak.

use std::time::Duration;

use quorlock_model::occasion::Occasion;

use crate::figures::{Figures, table};

/// What came of these rounds: on which occasion, on which servers, and how long they took together.
pub fn page(occasion: &Occasion, server: &str, took: Duration, rounds: &[Figures]) -> String {
    format!(
        "# Leases that come and go\n\n{} {server}; {} rounds in {:.1} minutes.\n\n\
         What is done, and what is judged of it, is on [the page of the doors](doors.md#leases-that-come-and-go).\n\n{}",
        occasion.told(),
        rounds.len(),
        took.as_secs_f64() / 60.0,
        table(rounds),
    )
}
