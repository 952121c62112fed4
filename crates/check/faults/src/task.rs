//! What a client process is told when it starts: one argument, in JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The lease length that all clients ask for.
pub const TTL: Duration = Duration::from_secs(1);
/// Constants of the cluster, short enough for a quarantine to end within an episode.
pub const MAX_TTL: Duration = Duration::from_secs(3);
/// How far the nodes' wall clocks may be apart.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
/// How far they may step back.
pub const MAX_CLOCK_STEP_BACK: Duration = Duration::from_secs(1);
/// Generous for a loopback, so that a busy machine alone costs no vote.
pub const NODE_DEADLINE: Duration = Duration::from_millis(150);
/// What the clients compete for.
pub const NAMES: [&str; 2] = ["ledger", "report"];

/// One client's part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its number: no two processes of an episode share one.
    pub client: u32,
    /// Decides when it rests, what it wants and for how long.
    pub seed: u64,
    /// The nodes, each behind a proxy.
    pub urls: Vec<String>,
    /// What there is to lock.
    pub names: Vec<String>,
    /// Where the register listens.
    pub register: String,
    /// The length of a lease.
    pub ttl_ms: u64,
    /// How long it pauses between two turns at most.
    pub rest_ms: u64,
    /// How long a short turn takes at most.
    pub busy_ms: u64,
    /// How long a long one takes at most: several leases' length.
    pub long_ms: u64,
    /// One turn in so many is a long one.
    pub long_one_in: u64,
    /// How long it thinks between reading the register and writing it, at most.
    pub step_ms: u64,
    /// How much validity it wants to have left before it begins to read.
    pub margin_ms: u64,
    /// Whether it lets nodes vote at once that have lost their memory.
    pub trusting: bool,
    /// Whether it lets a late renewal revive a lease that was lost.
    pub reviving: bool,
}

impl Task {
    /// What all clients are told alike.
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
