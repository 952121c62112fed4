//! Holds a lock in a program without async.
//!
//! A migration waits up to 30 seconds for its lock. Before each step it checks that the lease will last for the step.
//!
//! Run `cargo run -p quorlock --example blocking`. The example needs no server.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use quorlock::blocking::Client;

fn main() -> Result<(), Box<dyn Error>> {
    // A node in the memory of this process. For locks between hosts, use `Client::connect(["redis://..", ..])`.
    let client = Client::memory();
    // `inspect` and waiting clients show the label of the holder.
    let lock = client.lock("migrations").ttl(Duration::from_secs(10)).label("migrate");
    let lease = lock.acquire_within(Duration::from_secs(30))?;
    for step in ["create the new table", "copy the rows", "drop the old table"] {
        // The client renews the lease in the background, but can lose it if the nodes become unreachable. This check
        // fails if the lease is lost, or has less than a second left for the step.
        lease.ensure(Duration::from_secs(1))?;
        println!("{step}, with fence {}", lease.fence()?);
        // In a real program, this is the work of the step.
        sleep(Duration::from_millis(20));
    }
    lease.release()?;
    Ok(())
}
