//! A Redis key that refuses writes of holders that have been overtaken: a script compares and writes in one step.

use quorlock::Client;
use redis::{Connection, RedisResult, Script};

/// Keeps the fence with the value. Fences have at most 53 bits, which Lua's numbers hold exactly.
const WRITE: &str = "
    local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
    if tonumber(ARGV[1]) < seen then return 0 end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
    return 1";

/// Writes a value, unless a holder with a higher fence has written before. Whether it was written.
pub(crate) fn write(server: &mut Connection, key: &str, value: &str, fence: u64) -> RedisResult<bool> {
    Script::new(WRITE).key(key).arg(fence).arg(value).invoke(server)
}

#[tokio::main]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(url) = std::env::args().nth(1) else { return Err("name a server: redis://127.0.0.1".into()) };
    let (client, mut server) = (Client::memory().await, redis::Client::open(url)?.get_connection()?);
    let early = client.lock("report").acquire().await?;
    let old = early.fence()?.get();
    early.release().await?;
    let late = client.lock("report").acquire().await?;
    println!("the later holder writes: {}", write(&mut server, "report", "late", late.fence()?.get())?);
    println!("the earlier one, who woke up too late: {}", write(&mut server, "report", "early", old)?);
    Ok(())
}
