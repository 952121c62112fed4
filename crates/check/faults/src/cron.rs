//! Runs the README's crontab line during operations and faults, and writes a page about the results. Each of these
//! operations and faults broke the crontab line in an earlier version.

mod case;
mod crontab;
mod page;

use std::path::Path;

use crate::Failure;
use crate::host_runs::Programs;
use crate::interrupt::Interrupt;
use case::CASES;
use crontab::Crontab;

pub use case::{Case, Claim};
pub use crontab::Outcome;
pub use page::{CaseResult, page};

/// Runs every case. Passes each result to `on_result` as soon as the case has ended.
///
/// # Errors
/// When a server or a process cannot be started.
///
/// # Panics
/// When a server cannot be restarted or refuses a command.
pub fn run_all_cases(
    programs: &Programs,
    histories: &Path,
    interrupt: &Interrupt,
    on_result: impl Fn(&CaseResult),
) -> Result<Vec<CaseResult>, Failure> {
    let mut results = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        if interrupt.is_set() {
            break;
        }
        let history = histories.join(format!("cron-{number}.jsonl"));
        let mut crontab = Crontab::start(programs, &history, case, interrupt)?;
        (case.run)(&mut crontab)?;
        let result = CaseResult { case, outcome: crontab.finish()? };
        on_result(&result);
        results.push(result);
    }
    Ok(results)
}
