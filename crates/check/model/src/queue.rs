//! Waiting in the queue: who is served, and who is not, when a rule of waiting is missing.

pub mod fair;
pub mod search;
mod turn;
pub mod world;
