//! Waiters in the queue, with the shipped nodes and clients: with all rules every waiter is served, and without a rule
//! some schedules serve no waiter.
//!
//! A model checker found the schedules that serve no waiter, for the protocol on three nodes with three waiters.

mod missing_rules;
mod random_schedules;
