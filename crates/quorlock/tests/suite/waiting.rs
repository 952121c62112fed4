//! Waiting in the queue: order, herds, hints, deadlines, and what waiters leave behind.

mod comeback;
mod foreign;
mod herd;
mod hints;
mod history;
mod kills;
mod leaving;
mod queue;
mod split;
mod storm;
