//! The service's tests, which run it in the test's own process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod crowd;
mod fences;
mod hostile;
mod keys;
mod kinds;
mod leases;
mod looks;
mod page;
mod readers;
mod refused;
mod service;
mod stopping;
mod telling;
mod vanished;
mod waiting;
mod web_handler;
