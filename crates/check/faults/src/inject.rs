//! Injects the faults of a plan: starts and ends each fault at its time.

use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::clock;
use crate::history::{History, Record};
use crate::interrupt::Interrupt;
use crate::plan::{Fault, Plan};

/// The interval at which the harness polls the clock, the interrupt and the processes.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The servers and clients that faults are injected into.
pub trait FaultTargets {
    /// Begins a fault. Returns false if the fault has no target.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure>;

    /// Ends a fault that has begun.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn end(&mut self, fault: &Fault) -> Result<(), Failure>;

    /// Starts new clients, and reaps clients that have ended. Called again and again between two faults.
    ///
    /// # Errors
    /// When a process cannot be started or waited for.
    fn tick(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Begins and ends every fault at its time. After an interrupt, no more faults begin.
///
/// # Errors
/// When `targets` fails.
pub fn inject_faults(
    plan: &Plan,
    targets: &mut impl FaultTargets,
    history: &History,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let started = Instant::now();
    let begins = plan.faults.iter().map(|fault| (fault.at, true, fault));
    let ends = plan.faults.iter().map(|fault| (fault.at + fault.length, false, fault));
    let mut changes: Vec<(Duration, bool, &Fault)> = begins.chain(ends).collect();
    // If a fault ends when another fault begins, the end comes first. A fault of zero length begins before it ends.
    changes.sort_by_key(|(at, is_begin, fault)| (*at, *is_begin != fault.length.is_zero()));
    let mut active_faults: Vec<Fault> = Vec::new();
    for (at, is_begin, fault) in changes {
        while started.elapsed() < at && !interrupt.is_set() {
            thread::sleep((at.saturating_sub(started.elapsed())).min(POLL_INTERVAL));
            targets.tick()?;
        }
        if is_begin && !interrupt.is_set() {
            let at = clock::now();
            if targets.begin(fault)? {
                active_faults.push(*fault);
                history.record(Record::Fault { at, fault: *fault, persistence: plan.persistence_of(fault) });
            }
        } else if let Some(index) = active_faults.iter().position(|active| active == fault) {
            active_faults.swap_remove(index);
            targets.end(fault)?;
        }
    }
    Ok(())
}
