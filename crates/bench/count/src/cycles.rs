//! The program that is counted: cycles of acquire and release, one after the other, in one thread.

use std::net::SocketAddr;

use quorlock::Client;
use stats_alloc::Region;

use crate::{ALLOCATOR, Failure, relay};

/// The number of cycles before the count starts. Then connections are open, and buffers have reached their sizes.
const WARM_UP_CYCLES: usize = 100;

/// Runs cycles, and prints the number of allocations per cycle. Uses a memory node if no server is given.
pub(crate) fn run(plain: bool, count: &str, servers: &[&str]) -> Result<(), Failure> {
    let count: usize = count.parse()?;
    let servers = servers.iter().map(|server| server.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = if servers.is_empty() { Client::memory().await } else { connect(&servers).await? };
        cycles(&client, plain, WARM_UP_CYCLES).await?;
        let region = Region::new(ALLOCATOR);
        cycles(&client, plain, count).await?;
        let change = region.change();
        println!("{}", (change.allocations + change.reallocations) as f64 / count as f64);
        Ok(())
    })
}

async fn connect(servers: &[SocketAddr]) -> Result<Client, Failure> {
    let mut urls = Vec::new();
    for server in servers {
        urls.push(format!("redis://{}", relay::open(*server).await?));
    }
    Ok(Client::connect(urls).await?)
}

async fn cycles(client: &Client, plain: bool, count: usize) -> Result<(), Failure> {
    for _ in 0..count {
        let lock = client.lock("count/000000");
        let lock = if plain { lock.plain() } else { lock };
        lock.acquire().await?.release().await?;
    }
    Ok(())
}
