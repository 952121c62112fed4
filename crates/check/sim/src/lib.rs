//! The whole library on virtual time: clients, links, timers and recipes as they are shipped, over simulated nodes that run
//! the core's rules, on a simulated network. One seed decides everything that happens.

pub mod clock;
pub mod kept;
mod ledger;
pub mod plan;
pub mod report;
pub mod run;
pub mod shape;
mod user;
mod world;
