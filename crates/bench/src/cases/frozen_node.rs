//! Measures five nodes, one of which is frozen. Compares our library with itself on healthy nodes, and with peers.

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Limit, P99};
use crate::options::Options;
use crate::peers;
use crate::recorded_cluster::RecordedCluster;
use crate::worker::{Task, Worker};

const NODES: usize = 5;
const TTL_MS: u64 = 30_000;
const HEALTHY: &str = "ours, all healthy";
const HEALTHY_FENCED: &str = "ours, fenced, all healthy";
const OURS: &str = "ours";
const OURS_FENCED: &str = "ours, fenced";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new("frozen", set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let (healthy, damaged) = options.runtime.block_on(async {
        Ok::<_, Failure>((RecordedCluster::start(NODES).await?, RecordedCluster::start(NODES).await?))
    })?;
    let mut case = Case::new("frozen", "5 nodes, one of which is frozen, 1 caller", P99);
    let task = |cluster: &RecordedCluster, plain| Task {
        nodes: cluster.urls(),
        callers: 1,
        ttl_ms: TTL_MS,
        plain,
        ..Task::default()
    };
    let own = |cluster: &RecordedCluster, plain| Worker::of_this_program("own", &task(cluster, plain), options.length);
    case.add(HEALTHY, own(&healthy, true)?);
    case.add(OURS, own(&damaged, true)?);
    case.add(HEALTHY_FENCED, own(&healthy, false)?);
    case.add(OURS_FENCED, own(&damaged, false)?);
    case.add_if("rslock", peers::rust("rslock", &task(&damaged, true), options));
    case.add_if("node redlock", peers::node(&task(&damaged, true), options));
    // All contenders connect while all nodes are healthy.
    case.warm_up()?;
    damaged.servers[0].freeze();
    case.bars.push(Bar::ratio(OURS, P99, HEALTHY, Limit::AtMost(1.2)));
    case.bars.push(Bar::ratio(OURS_FENCED, P99, HEALTHY_FENCED, Limit::AtMost(1.2)));
    case.keep(healthy);
    case.keep(damaged);
    Ok(case)
}
