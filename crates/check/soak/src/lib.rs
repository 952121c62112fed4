//! Leases coming and going on nodes of every kind, in rounds: a busy time, then rest, then a look at what is left.

mod figures;
mod page;
mod round;
mod visitor;
mod world;

use std::time::{Duration, Instant};

pub use figures::{Figures, Growth};
pub use page::page;
use round::Doings;
use world::World;

/// What to do, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long to go on: whole rounds, at least [`ROUNDS_MIN`] of them after the first.
    pub time: Duration,
    /// The busy time of a round.
    pub busy: Duration,
    /// Decides who does what; not when.
    pub seed: u64,
    /// How much memory is never given back after each round, in KiB: to see that it is noticed.
    pub leak: usize,
}

/// The first round is there to warm up: caches, allocators and servers take what they need once.
pub const ROUNDS_MIN: usize = 5;

/// How many looks it may take until everything has come to rest, and the pause between them: places in the queue and lapsed
/// votes take some seconds. Not a time: a machine may be busy with something else for longer than that.
const LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a plan, printing what is left after each round, and a table of some of them in the end.
///
/// # Errors
/// [`Growth`] says what has grown, or what did not come to rest.
///
/// # Panics
/// If a task panicked, and if servers cannot be started.
///
/// # Cancel safety
/// Dropped, everything ends.
pub async fn run(plan: Plan) -> Result<Vec<Figures>, Growth> {
    println!("seed {}", plan.seed);
    println!("{}", Figures::HEAD);
    round::count_requests();
    let worlds = World::all().await;
    let begun = Instant::now();
    let mut all: Vec<Figures> = Vec::new();
    let mut total = Doings::default();
    while all.len() <= ROUNDS_MIN || begun.elapsed() < plan.time {
        total += round::busy(&worlds, plan.busy, plan.seed.wrapping_add(all.len() as u64)).await;
        Vec::leak(vec![1_u8; plan.leak << 10]);
        let figures = rest(&worlds, all.first(), &total).await?;
        println!("{figures}");
        all.push(figures);
    }
    figures::judge(&all)?;
    println!("\n{}", figures::table(&all));
    Ok(all)
}

/// Waits until nothing is left of the round but what there was after the first.
async fn rest(worlds: &[World], first: Option<&Figures>, doings: &Doings) -> Result<Figures, Growth> {
    let mut looks = 0;
    loop {
        let mut left = Vec::new();
        for world in worlds {
            left.extend(world.unrest().await);
        }
        let figures = Figures::take(worlds, doings);
        if let Some(first) = first {
            left.extend(figures.more_than(first));
        }
        if left.is_empty() {
            return Ok(figures);
        }
        looks += 1;
        if looks == LOOKS {
            return Err(Growth(left));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
