//! Real servers, real clients, real faults; and a judge of what came of it.
//!
//! An `episode` starts Redis servers, proxies in front of them and client processes that take turns with a few
//! names; it does to them what the [plan] of its seed says, heals everything and lets everyone finish. All that
//! clients say goes into the [history], by one clock, and the [judge] looks at that alone.
//!
//! What can be judged is a `Subject`: a program that takes a [`Task`](task::Task) and tells
//! [events](history::Event), in lines of JSON. quorlock is one of them, and other lock libraries are the others. Those need
//! no more than this crate without its features: the [`worker`], for a [`Library`](worker::Library).
//!
//! A [`trial`] is an episode of ordinary operations: backups, replicas, restarts, signals to the processes of the real
//! `quorlock run`, failovers of a sentinel's master. [`series`] has the bar for each kind. `cron` tries the crontab recipe
//! of the README and writes down what happened.

pub mod clock;
#[cfg(feature = "harness")]
pub mod cluster;
#[cfg(feature = "harness")]
pub mod command;
#[cfg(feature = "harness")]
pub mod cron;
#[cfg(feature = "harness")]
pub mod episode;
#[cfg(feature = "harness")]
pub mod fleet;
pub mod history;
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
pub mod schedule;
pub mod series;
#[cfg(feature = "harness")]
pub mod subject;
pub mod task;
#[cfg(feature = "harness")]
pub mod trial;
pub mod worker;

/// Whatever may keep an episode, or a client, from going on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
