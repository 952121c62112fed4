//! The algorithm behind [quorlock](https://docs.rs/quorlock): which client may hold a lock, for how long, and with
//! which fence.
//!
//! This crate performs no I/O: it reads no clock, opens no socket and has no random source of its own. Every state
//! machine takes an input and the current [`Moment`](time::Moment) and returns instructions, which the `quorlock` crate
//! carries out. Tests, simulation and model checker therefore run the same code that ships.
//!
//! Read from the bottom up: [`time`] and [`validity`] are arithmetic, [`vote`] defines the messages, [`quorum`] says
//! whose votes count, [`round`] counts them, [`acquire`] and [`hold`] decide, and [`delivery`] carries their requests to
//! one node. [`node`] is the server side: how a node handles a request. [`roster`] decides who the nodes are.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

pub mod acquire;
pub mod backoff;
pub mod delivery;
pub mod digest;
pub mod fence;
pub mod hold;
pub mod name;
pub mod node;
pub mod nodes;
pub mod quorum;
pub mod request;
pub mod rng;
pub mod roster;
pub mod round;
pub mod rules;
pub mod terms;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod validity;
pub mod vote;
