//! Settling on one of a semaphore's slots.

use alloc::vec::Vec;

use super::{
    Acquire, Attempt, DELAY_MIN, Mode, Moment, POLL_MAX, Parting, Rng, SETTLES_MAX, State, Step, Verdict, fresh_id,
};

impl Acquire {
    /// Returns the mode to request; for a semaphore, with the slot to try first.
    pub(super) fn mode(&self) -> Mode {
        match (self.terms.mode, self.slot) {
            (Mode::Slot { permits, .. }, Some(slot)) => Mode::Slot { permits, slot },
            (mode, _) => mode,
        }
    }

    /// Releases grants of different slots, and asks for the slot that most nodes can grant.
    pub(super) fn settle(&mut self, now: Moment, rng: &mut dyn Rng) -> Vec<Step> {
        self.settles += 1;
        let State::Asking(current) = &self.state else { return Vec::new() };
        let Some(slot) = current.round.likeliest_slot().filter(|_| self.settles <= SETTLES_MAX && !self.is_over(now))
        else {
            self.settles = 0;
            return self.defeat(Verdict::Held, now, rng);
        };
        self.slot = Some(slot);
        let is_crossed = current.round.offers_of(slot) < self.terms.electors.majority();
        if is_crossed && self.ticket.is_none() {
            return self.defeat(Verdict::Held, now, rng);
        }
        let proposal = current.proposal.max(current.round.highest_fence().next());
        let mut steps = alloc::vec![self.release(current, self.waiter().map(Parting::Yield))];
        let mut fresh = Attempt::new(&self.terms.electors, proposal);
        // No slot can get a majority while other clients keep their slots, and asking at once would win the same slots
        // again. Pause until the other clients, too, have received all their answers and released their slots.
        let is_slow = current.round.silences().next().is_some();
        let pause = if is_slow { self.terms.node_deadline } else { self.terms.retry.min }.max(DELAY_MIN);
        fresh.poll = is_crossed.then(|| now + rng.between(pause, pause.saturating_mul(2)).min(POLL_MAX));
        self.attempt = fresh_id(rng);
        self.state = State::Asking(fresh);
        if !is_crossed {
            steps.extend(self.ask_all(now));
        }
        steps
    }
}
