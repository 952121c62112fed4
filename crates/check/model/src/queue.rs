//! Searches of the waiting queue: does every waiter get the lock, with all rules, and without each rule of waiting?

mod event;
pub mod fair_search;
pub mod search;
pub mod world;
