//! Writes the page about a soak.

use std::time::Duration;

use quorlock_model::run_info::RunInfo;

use crate::resource_counts::{ResourceCounts, table};

/// The page about these rounds, in Markdown.
pub fn page(run_info: &RunInfo, server: &str, took: Duration, rounds: &[ResourceCounts]) -> String {
    format!(
        "# Soak: nothing is left over\n\n\
         For readers who want to know whether quorlock leaks memory, tasks, files, connections or keys. The figures were\n\
         taken between rounds of load, while all clients and nodes were idle. [The soak test](robustness.md#leases-that-come-and-go) describes the load and the\n\
         limits. Allocated memory is memory that the process has not freed. Resident memory also includes memory that it has\n\
         freed and the allocator keeps, which depends on the load.\n\n\
         {} {server}; {} rounds in {:.1} minutes.\n\n{}",
        run_info.line(),
        rounds.len(),
        took.as_secs_f64() / 60.0,
        table(rounds),
    )
}
