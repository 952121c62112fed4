//! Fault injection with real Redis servers and real client processes, and a judge of the recorded history.
//!
//! An `episode` starts Redis servers, proxies in front of them, and client processes that compete for a few names. It
//! injects the faults of the seed's [plan], ends all faults and lets every client finish. All events go into one
//! [history], timed by one clock. The [judge] reads only this history.
//!
//! A `Subject` is a library under test. Its client processes take a [`Task`](task::Task) and print
//! [events](history::Event) as lines of JSON. quorlock is one subject. The other subjects are the
//! controls, in which the judge should find violations. A control in Rust implements [`Library`](worker::Library) and
//! calls [`worker::work`]. For this, it uses this crate without its features.
//!
//! A [`trial`] is an episode with ordinary operations: backups, replicas, restarts, signals to the processes of the
//! real `quorlock run`, or the failover of a master by its sentinel. [`series`] has the pass criteria of each kind of
//! episode.
//! `cron` runs the README's crontab line during operations and faults, and writes a page about the results.

pub mod clock;
#[cfg(feature = "harness")]
pub mod cluster;
#[cfg(feature = "harness")]
pub mod cron;
#[cfg(feature = "harness")]
pub mod episode;
pub mod history;
#[cfg(feature = "harness")]
pub mod host_runs;
#[cfg(feature = "harness")]
pub mod inject;
#[cfg(feature = "harness")]
pub mod interrupt;
pub mod judge;
#[cfg(feature = "harness")]
pub mod operation;
pub mod plan;
#[cfg(feature = "harness")]
pub mod processes;
pub mod register;
#[cfg(feature = "harness")]
pub mod report;
#[cfg(feature = "harness")]
pub mod run;
#[cfg(feature = "harness")]
pub mod run_command;
pub mod series;
#[cfg(feature = "harness")]
pub mod subject;
pub mod task;
#[cfg(feature = "harness")]
pub mod trial;
pub mod worker;

/// An error that ends an episode or a client.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
