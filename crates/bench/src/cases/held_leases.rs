//! One process that holds and renews a hundred thousand leases.

use std::time::Duration;

use super::PlannedCase;
use crate::Failure;
use crate::case::{Bar, Case, Limit};
use crate::options::Options;
use crate::recorded_cluster::RecordedCluster;
use crate::worker::{Task, Worker};

const NODES: usize = 5;
const LEASES: usize = 100_000;
const TTL_MS: u64 = 30_000;
/// A third of the ttl. In this time each lease is renewed once.
const TURN_LENGTH: Duration = Duration::from_secs(10);
const TURNS: usize = 2;
const OURS: &str = "ours, fenced";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new("held", set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let cluster = options.runtime.block_on(RecordedCluster::start(NODES))?;
    let mut case = Case::new("held", "100,000 leases on 5 nodes, held and renewed, ttl 30 s", "bytes_per_lease");
    case.about =
        "*bytes per lease* is the growth of the client process until it holds all leases, divided by their number. *share of a core* is the processor time of the client process, without the servers, divided by the elapsed time."
            .into();
    case.turns = Some(TURNS);
    let nodes = cluster.urls();
    let task = Task { nodes, callers: LEASES, first_caller: 0, ttl_ms: TTL_MS, plain: false, ..Task::default() };
    case.add(OURS, Worker::of_this_program("leases", &task, TURN_LENGTH)?);
    case.bars.push(Bar::figure(OURS, "bytes_per_lease", Limit::AtMost(2_048.0)));
    case.bars.push(Bar::figure(OURS, "share_of_a_core", Limit::AtMost(0.5)));
    case.keep_alive(cluster);
    Ok(case)
}
