//! Carries out a plan, each deed at its time.

use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::clock;
use crate::history::{History, Record};
use crate::interrupt::Interrupt;
use crate::plan::{Deed, Plan};

/// The interval between two looks at the clock, the interrupt and the processes.
pub const LOOK: Duration = Duration::from_millis(20);

/// The servers and clients that deeds are done to.
pub trait Scene {
    /// Begins a deed. Returns whether there was anything to do it to.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn begin(&mut self, deed: &Deed) -> Result<bool, Failure>;

    /// Ends a deed that was begun.
    ///
    /// # Errors
    /// When a process cannot be started or signalled.
    fn end(&mut self, deed: &Deed) -> Result<(), Failure>;

    /// Looks after the clients between two deeds.
    ///
    /// # Errors
    /// When a process cannot be started or waited for.
    fn tick(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Begins and ends every deed at its time. After an interrupt nothing is begun any more.
///
/// # Errors
/// When the scene fails.
pub fn carry_out(plan: &Plan, scene: &mut impl Scene, history: &History, interrupt: &Interrupt) -> Result<(), Failure> {
    let started = Instant::now();
    let begins = plan.deeds.iter().map(|deed| (deed.at, true, deed));
    let ends = plan.deeds.iter().map(|deed| (deed.at + deed.length, false, deed));
    let mut moments: Vec<(Duration, bool, &Deed)> = begins.chain(ends).collect();
    // Of what happens in the same moment, ends come first; but what lasts no time begins before it ends.
    moments.sort_by_key(|(at, begins, deed)| (*at, *begins != deed.length.is_zero()));
    let mut begun: Vec<Deed> = Vec::new();
    for (at, begins, deed) in moments {
        while started.elapsed() < at && !interrupt.is_set() {
            thread::sleep((at.saturating_sub(started.elapsed())).min(LOOK));
            scene.tick()?;
        }
        if begins && !interrupt.is_set() {
            let at = clock::now();
            if scene.begin(deed)? {
                begun.push(*deed);
                history.note(Record::Fault { at, deed: *deed, memories: plan.memories_of(deed) });
            }
        } else if let Some(place) = begun.iter().position(|begun| begun == deed) {
            begun.swap_remove(place);
            scene.end(deed)?;
        }
    }
    Ok(())
}
