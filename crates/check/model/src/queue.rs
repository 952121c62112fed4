//! Searches of the waiting queue: whether every waiter is served, with all rules of waiting and without each.

mod event;
pub mod fair;
pub mod search;
pub mod world;
