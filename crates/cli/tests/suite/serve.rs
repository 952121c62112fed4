//! `quorlock serve` as a process: flags, exit codes, signals, the log on stderr, and replicas that are killed. The service itself
//! is tested in `crates/server/tests`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
mod log;
mod replicas;
mod service;
mod stopping;
