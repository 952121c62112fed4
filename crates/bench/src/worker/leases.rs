//! A worker that measures the cost of holding and renewing many leases.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use quorlock::{Client, Lease};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use super::ours::connect;
use super::{Task, run_turns};
use crate::case::Figures;
use crate::{Failure, Outcome};

/// The number of concurrent acquires. It is limited, because meanwhile the client also renews earlier leases.
const CONCURRENT_ACQUIRES: usize = 64;

/// The number of renewals of a lease per ttl. The acquires are spread over the time between two renewals, so that the
/// renewals are spread, too.
const RENEWALS_PER_TTL: u32 = 3;

/// Acquires one lease per caller, and measures the cost of holding all leases for a turn.
pub(crate) fn work(task: &Task, runtime: &Runtime) -> Outcome {
    let client = runtime.block_on(connect(task))?;
    let before = resident_memory()?;
    let acquire_time = Duration::from_millis(task.ttl_ms) / RENEWALS_PER_TTL;
    let leases = runtime.block_on(acquire(&client, task.callers, acquire_time))?;
    let bytes = (resident_memory()?.saturating_sub(before)) as f64 / task.callers as f64;
    run_turns(|length| {
        let (begun, time_before, requests_before) = (Instant::now(), processor_time()?, client.stats().requests);
        std::thread::sleep(length);
        let seconds = begun.elapsed().as_secs_f64();
        let requests = (client.stats().requests - requests_before) as f64;
        let lost = leases.iter().filter(|lease| lease.validity().is_zero()).count();
        if lost > 0 {
            return Err(format!("{lost} leases were lost").into());
        }
        Ok(Figures::from([
            ("bytes_per_lease".into(), bytes),
            ("share_of_a_core".into(), processor_time()?.saturating_sub(time_before).as_secs_f64() / seconds),
            ("renewals_per_second".into(), requests / task.nodes.len() as f64 / seconds),
        ]))
    })
}

async fn acquire(client: &Client, count: usize, acquire_time: Duration) -> Result<Vec<Lease>, Failure> {
    let (mut leases, mut acquires) = (Vec::with_capacity(count), FuturesUnordered::new());
    let begun = tokio::time::Instant::now();
    for index in 0..count {
        if index % CONCURRENT_ACQUIRES == 0 {
            tokio::time::sleep_until(begun + acquire_time.mul_f64(index as f64 / count as f64)).await;
        }
        let client = client.clone();
        acquires.push(async move { client.lock(format!("held/{index:07}")).acquire().await });
        if acquires.len() == CONCURRENT_ACQUIRES {
            leases.extend(acquires.next().await.transpose()?);
        }
    }
    while let Some(lease) = acquires.next().await {
        leases.push(lease?);
    }
    Ok(leases)
}

fn processor_time() -> Result<Duration, Failure> {
    Ok(Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))?)
}

/// The resident memory of this process, in bytes.
fn resident_memory() -> Result<usize, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    Ok(kilobytes.ok_or("/proc has no resident memory")?.parse::<usize>()? * 1024)
}
