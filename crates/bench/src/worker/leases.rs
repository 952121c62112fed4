//! A worker that measures the cost of holding and renewing many leases.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use quorlock::{Client, Lease};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use super::ours::client;
use super::{Task, run_turns};
use crate::case::Figures;
use crate::{Failure, Outcome};

/// The number of concurrent acquires. During the acquires, the client already renews earlier leases.
const AT_ONCE: usize = 64;

/// The number of renewals per ttl. The acquires are spread over the time between two renewals, because leases that are
/// acquired at the same time are also renewed at the same time.
const RENEWALS: u32 = 3;

/// Acquires one lease per caller, and measures the cost of holding all leases for a turn.
pub(crate) fn work(task: &Task, runtime: &Runtime) -> Outcome {
    let client = runtime.block_on(client(task))?;
    let before = memory()?;
    let within = Duration::from_millis(task.ttl_ms) / RENEWALS;
    let leases = runtime.block_on(acquire(&client, task.callers, within))?;
    let bytes = (memory()?.saturating_sub(before)) as f64 / task.callers as f64;
    run_turns(|length| {
        let (begun, used, renewed) = (Instant::now(), processor_time()?, client.stats().requests);
        std::thread::sleep(length);
        let seconds = begun.elapsed().as_secs_f64();
        let requests = (client.stats().requests - renewed) as f64;
        let lost = leases.iter().filter(|lease| lease.validity().is_zero()).count();
        if lost > 0 {
            return Err(format!("{lost} leases were lost").into());
        }
        Ok(Figures::from([
            ("bytes_per_lease".into(), bytes),
            ("share_of_a_core".into(), processor_time()?.saturating_sub(used).as_secs_f64() / seconds),
            ("renewals_per_second".into(), requests / task.nodes.len() as f64 / seconds),
        ]))
    })
}

async fn acquire(client: &Client, count: usize, within: Duration) -> Result<Vec<Lease>, Failure> {
    let (mut leases, mut started_at) = (Vec::with_capacity(count), FuturesUnordered::new());
    let begun = tokio::time::Instant::now();
    for at in 0..count {
        if at % AT_ONCE == 0 {
            tokio::time::sleep_until(begun + within.mul_f64(at as f64 / count as f64)).await;
        }
        let client = client.clone();
        started_at.push(async move { client.lock(format!("held/{at:07}")).acquire().await });
        if started_at.len() == AT_ONCE {
            leases.extend(started_at.next().await.transpose()?);
        }
    }
    while let Some(lease) = started_at.next().await {
        leases.push(lease?);
    }
    Ok(leases)
}

fn processor_time() -> Result<Duration, Failure> {
    Ok(Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))?)
}

/// Resident memory, in bytes.
fn memory() -> Result<usize, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    Ok(kilobytes.ok_or("/proc has no resident memory")?.parse::<usize>()? * 1024)
}
