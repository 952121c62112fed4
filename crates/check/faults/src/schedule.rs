//! Carries out a plan: begins and ends each fault at its time.

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
pub trait Scene {
    /// Begins a fault. Returns false if there was no target for it.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn begin(&mut self, fault: &Fault) -> Result<bool, Failure>;

    /// Ends a fault that has begun.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn end(&mut self, fault: &Fault) -> Result<(), Failure>;

    /// Starts and reaps clients between two faults.
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
/// When [`Scene`] fails.
pub fn carry_out(plan: &Plan, scene: &mut impl Scene, history: &History, interrupt: &Interrupt) -> Result<(), Failure> {
    let started = Instant::now();
    let begins = plan.faults.iter().map(|fault| (fault.at, true, fault));
    let ends = plan.faults.iter().map(|fault| (fault.at + fault.length, false, fault));
    let mut moments: Vec<(Duration, bool, &Fault)> = begins.chain(ends).collect();
    // If one fault ends when another begins, the end comes first. A fault of zero length begins before it ends.
    moments.sort_by_key(|(at, begins, fault)| (*at, *begins != fault.length.is_zero()));
    let mut begun: Vec<Fault> = Vec::new();
    for (at, begins, fault) in moments {
        while started.elapsed() < at && !interrupt.is_set() {
            thread::sleep((at.saturating_sub(started.elapsed())).min(POLL_INTERVAL));
            scene.tick()?;
        }
        if begins && !interrupt.is_set() {
            let at = clock::now();
            if scene.begin(fault)? {
                begun.push(*fault);
                history.note(Record::Fault { at, fault: *fault, persistence: plan.persistence_of(fault) });
            }
        } else if let Some(place) = begun.iter().position(|begun| begun == fault) {
            begun.swap_remove(place);
            scene.end(fault)?;
        }
    }
    Ok(())
}
