//! `quorlock serve` as a process: flags, exit codes, signals, the log on stderr, and killed replicas.
//! `crates/server/tests` tests the service itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
mod log;
mod replicas;
mod service;
mod stopping;
