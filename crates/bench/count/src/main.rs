//! Cycles of acquire and release, with every allocation counted: `quorlock-count KIND CYCLES URL..`, where without a URL there
//! is a memory node. Told is one line of JSON. A program of its own, as counting takes time that others would be measured by.

use std::alloc::System;
use std::error::Error;

use quorlock::Client;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Not counted: connections and caches have their sizes by then.
const WARM_UP: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let plain = args.next().ok_or("plain or fenced?")? == "plain";
    let cycles: usize = args.next().ok_or("how many?")?.parse()?;
    let urls: Vec<String> = args.collect();
    // One thread: what others do meanwhile is not counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = if urls.is_empty() { Client::memory().await } else { Client::connect(&urls).await? };
        run(&client, plain, WARM_UP).await?;
        let region = Region::new(ALLOCATOR);
        run(&client, plain, cycles).await?;
        let change = region.change();
        let each = |count: usize| count as f64 / cycles as f64;
        let allocations = each(change.allocations + change.reallocations);
        let told = serde_json::json!({ "allocations": allocations, "bytes": each(change.bytes_allocated) });
        println!("{told}");
        Ok(())
    })
}

async fn run(client: &Client, plain: bool, cycles: usize) -> Result<(), Box<dyn Error>> {
    for _ in 0..cycles {
        let lock = client.lock("count/000000");
        let lock = if plain { lock.plain() } else { lock };
        lock.acquire().await?.release().await?;
    }
    Ok(())
}
