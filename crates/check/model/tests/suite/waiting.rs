//! Waiting in the queue, with nodes and clients as they ship: which schedules hang without which rule, and that everyone is
//! served with all of them.
//!
//! The schedules are those that a model checker found for the protocol on three nodes with three waiters.

mod served;
mod stuck;
