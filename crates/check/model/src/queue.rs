//! Searches of the waiting queue: whether every waiter is served, with all rules of waiting and without each.

pub mod fair;
pub mod search;
mod turn;
pub mod world;
