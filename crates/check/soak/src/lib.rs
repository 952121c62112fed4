//! A soak test: rounds of many short leases on nodes of every kind. After each round, the test waits until all clients
//! and nodes are idle, and checks that nothing is left over.

mod figures;
mod page;
mod round;
mod worker;
mod world;

use std::time::{Duration, Instant};

pub use figures::{Figures, Growth};
pub use page::page;
use round::Totals;
use world::World;

/// The options of a soak.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time after which no round begins. There are at least [`ROUNDS_MIN`] rounds after the first.
    pub time: Duration,
    /// The busy time of a round.
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

/// Runs a soak. Prints the figures after each round, and a table of some rounds at the end.
///
/// # Errors
/// [`Growth`] lists the figures that have grown, and the activity that did not end.
///
/// # Panics
/// If a task panics or a server cannot be started.
///
/// # Cancel safety
/// Dropping the future ends all tasks and servers.
pub async fn run(plan: Plan) -> Result<Vec<Figures>, Growth> {
    println!("seed {}", plan.seed);
    println!("{}", Figures::HEAD);
    round::count_requests();
    let worlds = World::all().await;
    let begun = Instant::now();
    let mut all: Vec<Figures> = Vec::new();
    let mut total = Totals::default();
    while all.len() <= ROUNDS_MIN || begun.elapsed() < plan.time {
        total += round::busy(&worlds, plan.busy, plan.seed.wrapping_add(all.len() as u64)).await;
        Vec::leak(vec![1_u8; plan.leak << 10]);
        let figures = wait_until_idle(&worlds, all.first(), &total).await?;
        println!("{figures}");
        all.push(figures);
    }
    figures::judge(&all)?;
    println!("\n{}", figures::table(&all));
    Ok(all)
}

/// Waits until all clients and nodes are idle, and no figure is higher than after the first round.
async fn wait_until_idle(worlds: &[World], first: Option<&Figures>, totals: &Totals) -> Result<Figures, Growth> {
    let mut polls = 0;
    loop {
        let mut left = Vec::new();
        for world in worlds {
            left.extend(world.activity().await);
        }
        let figures = Figures::take(worlds, totals);
        if let Some(first) = first {
            left.extend(figures.growth_since(first));
        }
        if left.is_empty() {
            return Ok(figures);
        }
        polls += 1;
        if polls == POLLS_MAX {
            return Err(Growth(left));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
