//! The algorithm behind [quorlock](https://docs.rs/quorlock): who may hold a lock, for how long, and with which fence.
//!
//! Nothing in here reads a clock, opens a socket or draws a random number of its own. Every machine takes an input and the current
//! [`Moment`](time::Moment) and says what is to be done; the `quorlock` crate does it. That makes each rule a thing that
//! can be stepped by hand, simulated and model-checked exactly as it ships.
//!
//! Read upwards: [`time`] and [`validity`] are arithmetic, [`vote`] is what travels, [`round`] counts, [`acquire`] and
//! [`hold`] decide, [`delivery`] carries their requests to one node. [`node`] is the other side: what a node does with a request.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod acquire;
pub mod backoff;
pub mod delivery;
pub mod digest;
pub mod fence;
pub mod hold;
pub mod mode;
pub mod name;
pub mod node;
pub mod nodes;
pub mod quorum;
pub mod rng;
pub mod round;
pub mod rules;
pub mod step;
pub mod terms;
#[cfg(test)]
pub(crate) mod testing;
pub mod ticket;
pub mod time;
pub mod validity;
pub mod vote;
pub mod watchdog;
