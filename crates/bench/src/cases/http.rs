//! Cycles over HTTP, through the service, compared with direct calls of the library.

use std::sync::Arc;

use super::{PlannedCase, count_with_noun};
use crate::Failure;
use crate::case::{Bar, Case, Limit, P50, RATE};
use crate::options::Options;
use crate::recorded_cluster::RecordedCluster;
use crate::service::{ContenderWithService, Service};
use crate::worker::{Task, Worker};

const NODES: usize = 5;
const TTL_MS: u64 = 30_000;
/// The bar for one caller: the median over HTTP divided by the median of direct calls.
const RATIO_MAX: f64 = 2.2;
const DIRECT: &str = "ours, called directly";
const OVER_HTTP: &str = "ours, over HTTP";

const ABOUT: &str = "Each acquire and each release, with fences, is one request on a persistent connection. \
    `quorlock serve` runs in its own process, without logs. Another process runs all callers in one thread. The \
    direct calls use the library as the service does, on the same nodes.";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    let case = |callers| PlannedCase::new(format!("http-{callers}"), move |options| set_up(callers, options));
    [1, 64].into_iter().map(case).collect()
}

fn set_up(callers: usize, options: &Options) -> Result<Case, Failure> {
    let cluster = options.runtime.block_on(RecordedCluster::start(NODES))?;
    let title = format!("Over HTTP: lock and release, {NODES} nodes, {}", count_with_noun(callers, "caller"));
    let mut case = Case::new(format!("http-{callers}"), title, if callers == 1 { P50 } else { RATE });
    case.about = ABOUT.into();
    let task = |nodes| Task { nodes, callers, ttl_ms: TTL_MS, ..Task::default() };
    case.add(DIRECT, Worker::of_this_program("detached", &task(cluster.urls()), options.turn_length)?);
    let service = Arc::new(Service::start(&cluster.urls())?);
    let contender = Worker::of_this_program("http", &task(vec![service.address()]), options.turn_length)?;
    case.add(OVER_HTTP, ContenderWithService { contender, service, turn_length: options.turn_length });
    if callers == 1 {
        case.bars.push(Bar::ratio(OVER_HTTP, P50, DIRECT, Limit::AtMost(RATIO_MAX)));
    }
    case.keep_alive(cluster);
    Ok(case)
}
