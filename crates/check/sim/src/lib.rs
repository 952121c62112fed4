//! Simulates the whole library on virtual time: clients, links and timers as shipped, nodes that run the core's rules,
//! and the network between them. One seed decides everything that happens.

pub mod clock;
mod ledger;
pub mod past_bugs;
pub mod plan;
pub mod report;
pub mod run;
pub mod shape;
mod user;
mod world;
