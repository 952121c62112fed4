//! The service: a real process, spoken to over real HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod crowd;
mod hostile;
mod keys;
mod kinds;
mod leases;
mod looks;
mod page;
mod readers;
mod refused;
mod replicas;
mod service;
mod stopping;
mod telling;
mod waiting;
