//! Distributed locks by majority vote over independent nodes.
//!
//! quorlock starts from [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/): the holder of a
//! lock has the votes of a majority of N independent Redis servers, for a time to live. It adds what Redlock lacks: a
//! [fence](Lease::fence) that grows with every lease, a quarantine for servers that lost their memory, a clock that counts
//! suspensions, and cancellation that never leaves a lock behind.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use quorlock::Client;
//!
//! // One node in memory; `Client::connect(["redis://..", "redis://..", "redis://.."])` for the real thing.
//! let client = Client::memory().await;
//! let lease = client.lock("nightly-report").acquire().await?;
//! println!("only one of me, with fence {}", lease.fence()?);
//! lease.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! A [`Client`] makes [`Lock`]s, and acquiring a lock gives a [`Lease`]. Besides the exclusive lock there are [`Reentrant`],
//! [`RwLock`], [`Semaphore`], [`All`] of several names, and an [`Election`]; [`blocking`] has all of them without async.
//!
//! In tests, [`MemoryNodes`] simulate nodes that crash, freeze or lose messages. The repository has
//! examples of every kind of lock and of a test of a lost lease, the
//! promises with their assumptions (`docs/guarantees.md`), and how a store checks fences (`docs/fences.md`).

mod api;
mod cluster;
mod detached;
mod error;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod imports;
mod lease;
mod link;
mod node;
mod platform;

/// The README's example has to compile, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

pub use api::blocking;
pub use api::builder::{CONNECT_TIMEOUT_DEFAULT, ClientBuilder};
pub use api::client::Client;
pub use api::election::{Election, Leader};
pub use api::lease::Lease;
pub use api::lock::{Exclusive, Kind, Lock, Reentrant, Semaphore};
pub use api::multi::{All, Leases, Names};
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use api::peek;
pub use api::rw::{ReadWrite, RwLock};
pub use cluster::break_lock::{Break, Broken};
pub use cluster::doctor::{Examination, ExaminedNode, Finding, NodeState, Severity, Topic};
pub use cluster::inspect::Inspection;
pub use cluster::list::{Filter, LIST_DEFAULT, LIST_MAX, ListPage, Listing};
pub use cluster::settings::{MAX_CLOCK_SKEW_DEFAULT, MAX_CLOCK_STEP_BACK_DEFAULT, MAX_TTL_DEFAULT};
pub use cluster::stats::NodeStats;
pub use cluster::view::{EventView, HolderView, LockOnNode, LockView, WaiterView};
pub use detached::{DetachedLease, LeaseTextError, Released};
pub use error::{
    AcquireError, BreakError, CloseError, ConfigError, ConnectError, FenceError, HeldError, LeaseError, LostError,
    Operation, ReadError, ReconfigureError, RunError,
};
pub use lease::claim::Progress;
pub use link::{RoundTrips, Stats};
pub use node::event::{Event, HISTORY_MAX, REASON_BYTES_MAX, What};
pub use node::memory::MemoryNodes;
pub use node::url::mask_url;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use platform::sim;

pub use quorlock_core::backoff::Retry;
pub use quorlock_core::digest::Digest;
pub use quorlock_core::fence::Fence;
pub use quorlock_core::hold::Wait;
pub use quorlock_core::name::{Holder, LeaseId, NAME_BYTES_MAX, Name, NameError, OwnerId as Owner};
pub use quorlock_core::quorum::{Quorum, QuorumError};
pub use quorlock_core::request::{BreakMode, Target};
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use quorlock_core::rules::{Rule, Rules};
pub use quorlock_core::terms::{HeldMode, LIFETIME_DEFAULT, Mode, PERMITS_MAX, Renewals};
pub use quorlock_core::time::{Drift, TTL_DEFAULT, TTL_MAX, TTL_MIN, TtlError};
pub use quorlock_core::vote::{
    HeldBy, NodeVote, QUEUE_LISTED_MAX, QueuePosition, Refusal, Report, Silence, Tally, Waiting,
};
