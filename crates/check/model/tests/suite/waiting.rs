//! Waiting in the queue with the shipped nodes and clients: which schedules hang without which rule, and that all
//! waiters are served with all rules.
//!
//! A model checker found these schedules for the protocol on three nodes with three waiters.

mod served;
mod stuck;
