//! A soak test, which acquires many short leases in rounds, on nodes of every kind. After each round, it waits until
//! all clients and nodes are idle, and checks that nothing is left over.

mod node_kind;
mod page;
mod resource_counts;
mod round;
mod worker;

use std::time::{Duration, Instant};

use node_kind::ClusterWithClients;
pub use page::page;
pub use resource_counts::{Leaks, ResourceCounts};
use round::Totals;

/// The options of a soak.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time after which no round starts. There are at least [`ROUNDS_MIN`] rounds after the first.
    pub time: Duration,
    /// How long the workers run in each round.
    pub busy: Duration,
    /// The seed of the workers' choices. It does not determine their timing.
    pub seed: u64,
    /// KiB of memory to leak after each round, to test that a leak is noticed.
    pub leak: usize,
}

/// The minimum number of rounds after the first. The first round is a warm-up, in which caches, allocators and servers
/// grow.
pub const ROUNDS_MIN: usize = 5;

/// The maximum number of polls until all clients and nodes are idle. Queue positions and votes take some seconds to
/// expire. The limit is not a time, because a busy machine may take longer.
const POLLS_MAX: u32 = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a soak test. Prints the counts after each round, and a table of some rounds at the end.
///
/// # Errors
/// [`Leaks`] lists the counts that have grown, and the activity that did not end.
///
/// # Panics
/// If a task panics or a server cannot be started.
///
/// # Cancel safety
/// Dropping the future ends all tasks and servers.
pub async fn run(plan: Plan) -> Result<Vec<ResourceCounts>, Leaks> {
    println!("seed {}", plan.seed);
    println!("{}", ResourceCounts::HEAD);
    round::count_requests();
    let clusters = ClusterWithClients::of_every_kind().await;
    let begun = Instant::now();
    let mut rounds: Vec<ResourceCounts> = Vec::new();
    let mut total = Totals::default();
    while rounds.len() <= ROUNDS_MIN || begun.elapsed() < plan.time {
        total += round::run_workers(&clusters, plan.busy, plan.seed.wrapping_add(rounds.len() as u64)).await;
        Vec::leak(vec![1_u8; plan.leak << 10]);
        let counts = wait_until_idle(&clusters, rounds.first(), &total).await?;
        println!("{counts}");
        rounds.push(counts);
    }
    resource_counts::check_memory_growth(&rounds)?;
    println!("\n{}", resource_counts::table(&rounds));
    Ok(rounds)
}

/// Waits until all clients and nodes are idle, and no count is higher than after the first round.
async fn wait_until_idle(
    clusters: &[ClusterWithClients],
    first: Option<&ResourceCounts>,
    totals: &Totals,
) -> Result<ResourceCounts, Leaks> {
    let mut polls = 0;
    loop {
        let mut leftovers = Vec::new();
        for cluster in clusters {
            leftovers.extend(cluster.activity().await);
        }
        let counts = ResourceCounts::take(clusters, totals);
        if let Some(first) = first {
            leftovers.extend(counts.increases_since(first));
        }
        if leftovers.is_empty() {
            return Ok(counts);
        }
        polls += 1;
        if polls == POLLS_MAX {
            return Err(Leaks(leftovers));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
