//! Cycles on five nodes, one of which is frozen. Compares our library with itself on healthy nodes, and with other
//! libraries.

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
    let (healthy, frozen) = options.runtime.block_on(async {
        Ok::<_, Failure>((RecordedCluster::start(NODES).await?, RecordedCluster::start(NODES).await?))
    })?;
    let mut case = Case::new("frozen", "5 nodes, one of which is frozen, 1 caller", P99);
    case.about = "Rows with *all healthy* use 5 other nodes, none of which is frozen.".into();
    let task = |cluster: &RecordedCluster, plain| Task {
        nodes: cluster.urls(),
        callers: 1,
        ttl_ms: TTL_MS,
        plain,
        ..Task::default()
    };
    let own =
        |cluster: &RecordedCluster, plain| Worker::of_this_program("own", &task(cluster, plain), options.turn_length);
    case.add(HEALTHY, own(&healthy, true)?);
    case.add(OURS, own(&frozen, true)?);
    case.add(HEALTHY_FENCED, own(&healthy, false)?);
    case.add(OURS_FENCED, own(&frozen, false)?);
    case.add_optional("rslock", peers::rust("rslock", &task(&frozen, true), options));
    case.add_optional("node redlock", peers::node(&task(&frozen, true), options));
    // All contenders connect while all nodes are healthy.
    case.warm_up()?;
    frozen.servers[0].freeze();
    case.bars.push(Bar::ratio(OURS, P99, HEALTHY, Limit::AtMost(1.2)));
    case.bars.push(Bar::ratio(OURS_FENCED, P99, HEALTHY_FENCED, Limit::AtMost(1.2)));
    case.keep_alive(healthy);
    case.keep_alive(frozen);
    Ok(case)
}
