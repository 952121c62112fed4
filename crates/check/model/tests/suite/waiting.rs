//! Waiters in the queue, with the shipped nodes and clients: with all rules every waiter is served, and without a rule
//! some schedules serve no waiter.
//!
//! A model checker found these schedules for the protocol on three nodes with three waiters.

mod served;
mod stuck;
