//! The task of a client process: its only argument, in JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The ttl of every lease.
pub const TTL: Duration = Duration::from_secs(1);
/// The cluster's maximum ttl. It is so short that a quarantine ends within an episode.
pub const MAX_TTL: Duration = Duration::from_secs(3);
/// The cluster's maximum clock skew.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
/// The cluster's maximum step back of a clock.
pub const MAX_CLOCK_STEP_BACK: Duration = Duration::from_secs(1);
/// How long a client waits for the vote of a node. It is long for a loopback connection, so that no vote is late only
/// because the machine is busy.
pub const NODE_DEADLINE: Duration = Duration::from_millis(150);
/// The names that clients compete for.
pub const NAMES: [&str; 2] = ["ledger", "report"];

/// The task of one client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The number of the client, unique in an episode.
    pub client: u32,
    /// The seed from which the client draws pauses, names, and how long it holds each lock.
    pub seed: u64,
    /// The nodes, each behind a proxy.
    pub urls: Vec<String>,
    /// The names to lock.
    pub names: Vec<String>,
    /// The address of the server of the registers.
    pub register: String,
    /// The ttl of a lease.
    pub ttl_ms: u64,
    /// The longest pause between two turns. A turn is one use of a lock.
    pub rest_ms: u64,
    /// The longest time for which the client holds a lock in a short turn.
    pub busy_ms: u64,
    /// The longest time for which the client holds a lock in a long turn. It is several ttls.
    pub long_ms: u64,
    /// One in this number of turns is a long turn.
    pub long_one_in: u64,
    /// The longest pause between reading a register and writing it back.
    pub step_ms: u64,
    /// The client reads a register only if the lease is valid for at least this time.
    pub margin_ms: u64,
    /// Whether nodes that have lost their memory may vote at once.
    pub trusting: bool,
    /// Whether a late renewal may revive a lost lease.
    pub reviving: bool,
}

impl Task {
    /// A task with the settings that all clients share.
    pub fn new(client: u32, seed: u64, urls: Vec<String>, register: String) -> Self {
        Self {
            client,
            seed,
            urls,
            names: NAMES.map(String::from).into(),
            register,
            ttl_ms: TTL.as_millis() as u64,
            rest_ms: 60,
            busy_ms: 250,
            long_ms: 2_500,
            long_one_in: 8,
            step_ms: 60,
            margin_ms: 120,
            trusting: false,
            reviving: false,
        }
    }
}
