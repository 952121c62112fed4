//! A tool without async: it waits for a lock, and does its work in steps that each need the lock for a second more.

use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use quorlock::blocking::Client;

fn main() -> Result<(), Box<dyn Error>> {
    // The locks of this process. `Client::connect(["redis://..", ..])` has locks that other hosts see.
    let client = Client::memory();
    let lock = client.lock("migrations").ttl(Duration::from_secs(10)).label("migrate");
    let lease = lock.acquire_within(Duration::from_secs(30))?;
    for step in ["create the new table", "copy the rows", "drop the old table"] {
        // Stops here if the lease was lost, or would be before the step is done.
        lease.ensure(Duration::from_secs(1))?;
        println!("{step}, with fence {}", lease.fence()?);
        sleep(Duration::from_millis(20));
    }
    lease.release()?;
    Ok(())
}
