//! Protects a Redis key from late writers: a script compares fences and writes in one step.
//!
//! The lock and the data are separate: here the nodes of the lock are in memory, and the data is in a Redis server.
//!
//! Run `cargo run -p quorlock --example fence_redis -- redis://127.0.0.1`. The example overwrites the key `report`.

use quorlock::Client;
use redis::{Connection, RedisResult, Script};

/// Stores the value and its fence, unless a higher fence is stored. Redis runs a script without interruption, so no
/// other write can come between the comparison and the write.
///
/// A fence has at most 53 bits, so a Lua number stores it exactly.
const WRITE: &str = "
    local highest = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
    if tonumber(ARGV[1]) < highest then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
    return 1";

/// Writes a value, unless a later holder has written before. Returns whether the value was written.
pub(crate) fn write(server: &mut Connection, key: &str, value: &str, fence: u64) -> RedisResult<bool> {
    Script::new(WRITE).key(key).arg(fence).arg(value).invoke(server)
}

#[tokio::main]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(url) = std::env::args().nth(1) else {
        return Err("pass the URL of a Redis server, for example redis://127.0.0.1".into());
    };
    let mut server = redis::Client::open(url)?.get_connection()?;
    let client = Client::memory().await;

    // The first holder stalls before its write. Meanwhile its lease ends, and a second client becomes the holder.
    let first_lease = client.lock("report").acquire().await?;
    let first_fence = first_lease.fence()?.get();
    first_lease.release().await?;
    let second_lease = client.lock("report").acquire().await?;
    let second_fence = second_lease.fence()?.get();

    println!("the second holder writes: {}", write(&mut server, "report", "new", second_fence)?);
    println!("the first holder writes too late: {}", write(&mut server, "report", "old", first_fence)?);
    Ok(())
}
