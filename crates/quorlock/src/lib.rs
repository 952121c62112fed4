//! Distributed locks by majority vote over independent nodes.
//!
//! quorlock starts from [Redlock](https://redis.io/docs/latest/develop/use/patterns/distributed-locks/): a lock is held
//! by whoever has the votes of a majority of N independent Redis servers, for a time to live. It adds what Redlock is
//! known to lack: a [fence](Lease::fence) that grows with every lease, a quarantine for servers that lost their memory,
//! a clock that counts suspensions, and cancellation that never strands a lock.
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
//! Whoever finds a lock held waits in line, and is told its place if it [observes](Lock::observe) that. Besides the
//! exclusive [`Lock`] there are [`Reentrant`], [`RwLock`], [`Semaphore`], [`All`] of several names and an [`Election`].
//!
//! What is promised, under which assumptions, and what is not: see `docs/guarantees.md` in the repository.

mod all;
mod attempt;
pub mod blocking;
#[cfg(target_os = "linux")]
mod boot;
mod breaking;
mod builder;
mod client;
mod clock;
mod cluster;
mod declare;
#[cfg(any(test, feature = "doors"))]
#[doc(hidden)]
pub mod doors;
mod election;
mod entropy;
mod error;
mod examine;
mod handed;
mod history;
mod ids;
mod inspect;
mod keeper;
mod lease;
mod link;
mod list;
mod lock;
mod membership;
mod node;
mod owner;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod peek;
mod quarantine;
mod recipe;
mod reentrant;
mod runtime;
mod rw;
mod semaphore;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod stats;
mod sync;
mod timers;
mod votes;

/// The README's example has to compile, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

pub use all::{All, Leases};
pub use attempt::Progress;
pub use breaking::{Break, Broken};
pub use builder::{BACKSTEP_DEFAULT, CONNECT_TIMEOUT_DEFAULT, ClientBuilder, MAX_TTL_DEFAULT, SIGMA_DEFAULT};
pub use client::Client;
pub use election::{Election, Leader, Leadership};
pub use error::{
    AcquireError, BreakError, CheckError, CloseError, ConfigError, ConnectError, ExtendError, FenceError, HeldError,
    HistoryError, InitError, InspectError, ListError, LostError, OtherError, ReconfigureError, ReleaseError, RunError,
};
pub use examine::{Examination, ExaminedNode, Finding, NodeState, Rate, Severity, Skew, Topic};
pub use handed::{HandedLease, LeaseTextError, Released};
pub use inspect::Inspection;
pub use lease::Lease;
pub use list::{Filter, LIST_DEFAULT, LIST_MAX, ListPage, Listing};
pub use lock::Lock;
pub use node::event::{Event, HISTORY_MAX, REASON_BYTES_MAX, What};
pub use node::memory::MemoryNodes;
pub use owner::Owner;
pub use reentrant::Reentrant;
pub use rw::RwLock;
pub use semaphore::Semaphore;
pub use stats::{NodeStats, RoundTrips, Stats};

pub use quorlock_core::acquire::Wait;
pub use quorlock_core::digest::Digest;
pub use quorlock_core::fence::Fence;
pub use quorlock_core::mode::{PERMITS_MAX, Period};
pub use quorlock_core::name::{Holder, LeaseId, NAME_BYTES_MAX, Name, NameError};
pub use quorlock_core::quorum::{Ballot, QuorumError, Tally};
pub use quorlock_core::retry::Retry;
#[cfg(feature = "mutants")]
#[doc(hidden)]
pub use quorlock_core::rules::{Rule, Rules};
pub use quorlock_core::ticket::{LINE_LISTED_MAX, Line, Waiting};
pub use quorlock_core::time::{Drift, TTL_DEFAULT, TTL_MAX, TTL_MIN, TtlError};
pub use quorlock_core::vote::{BreakMode, HeldBy, Refusal, Report, Silence, Target};
pub use quorlock_core::watchdog::{LIFETIME_DEFAULT, Renewals};
