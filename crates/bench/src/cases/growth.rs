//! The growth of the throughput with the number of callers.

use super::{PlannedCase, count_with_noun};
use crate::Failure;
use crate::case::{Case, RATE};
use crate::options::Options;
use crate::recorded_cluster::RecordedCluster;
use crate::worker::{Task, Worker};

const NODES: usize = 5;
const TTL_MS: u64 = 30_000;
const CALLERS: [usize; 7] = [1, 4, 16, 64, 256, 1_024, 4_096];
/// The number of turns. It is low, because there are many contenders.
const TURNS: usize = 3;

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    vec![PlannedCase::new("growth-callers", set_up)]
}

fn set_up(options: &Options) -> Result<Case, Failure> {
    let mut case = Case::new("growth-callers", "Growth: callers, on 5 nodes", RATE);
    case.axis = Some("callers");
    case.turns = Some(TURNS);
    let cluster = options.runtime.block_on(RecordedCluster::start(NODES))?;
    for callers in CALLERS {
        for (plain, suffix) in [(true, ""), (false, ", fenced")] {
            let task = Task { nodes: cluster.urls(), callers, ttl_ms: TTL_MS, plain, ..Task::default() };
            let worker = Worker::of_this_program("own", &task, options.turn_length)?;
            case.add(format!("{}{suffix}", count_with_noun(callers, "caller")), worker);
        }
    }
    case.keep_alive(cluster);
    Ok(case)
}
