//! Waiting in the queue: its order, hints, deadlines, and waiters that die or give up.

mod recovery;
mod foreign;
mod herd;
mod hints;
mod history;
mod kills;
mod leaving;
mod queue;
mod split;
mod fault_run;
