//! Waiting in the queue: its order, hints, deadlines, and waiters that die or give up.

mod fault_run;
mod foreign;
mod herd;
mod hints;
mod history;
mod kills;
mod leaving;
mod queue;
mod recovery;
mod split;
