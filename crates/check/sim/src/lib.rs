//! Simulates the whole library on virtual time: the shipped clients, links and timers, nodes that run the core's rules,
//! and the network between them. A run is one simulation, and its seed decides all its events.

pub mod clock;
mod ledger;
pub mod past_bugs;
pub mod plan;
pub mod report;
pub mod run;
pub mod shape;
mod user;
mod world;
