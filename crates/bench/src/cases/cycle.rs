//! Cycles of acquire and release without contention: every caller locks its own name.

use super::{PlannedCase, count_with_noun};
use crate::Failure;
use crate::case::{Bar, Case, Limit, P50, RATE};
use crate::ceiling::Ceiling;
use crate::etcd::Etcd;
use crate::options::Options;
use crate::peers;
use crate::recorded_cluster::RecordedCluster;
use crate::recording::Recording;
use crate::worker::{Task, Worker};

/// Nodes and callers of each case.
const CASES: [(usize, usize); 4] = [(1, 1), (5, 1), (5, 64), (5, 512)];
const TTL_MS: u64 = 30_000;
/// The number of acquires, and of releases, in a measurement of the ceiling. They take at least a tenth of a second.
const PLAIN_CEILING_REQUESTS: usize = 20_000;
const FENCED_CEILING_REQUESTS: usize = 10_000;

const OURS: &str = "ours";
const OURS_FENCED: &str = "ours, fenced";
const FLOOR: &str = "floor";
const FLOOR_FENCED: &str = "floor, fenced";
const CEILING: &str = "ceiling";
const CEILING_FENCED: &str = "ceiling, fenced";
const CEILING_BUNDLED: &str = "ceiling, bundled";
const CEILING_FENCED_BUNDLED: &str = "ceiling, fenced, bundled";
const RSLOCK: &str = "rslock";
const OURS_ONE_THREAD: &str = "ours, one thread";
const OURS_FENCED_ONE_THREAD: &str = "ours, fenced, one thread";
const RSLOCK_ONE_THREAD: &str = "rslock, one thread";

pub(crate) fn planned_cases() -> Vec<PlannedCase> {
    let case =
        |(nodes, callers)| PlannedCase::new(name(nodes, callers), move |options| set_up(nodes, callers, options));
    CASES.into_iter().map(case).collect()
}

fn name(nodes: usize, callers: usize) -> String {
    format!("cycle-{nodes}-{callers}")
}

fn set_up(nodes: usize, callers: usize, options: &Options) -> Result<Case, Failure> {
    let cluster = options.runtime.block_on(RecordedCluster::start(nodes))?;
    let figure = if callers == 1 { P50 } else { RATE };
    let title =
        format!("Acquire and release: {}, {}", count_with_noun(nodes, "node"), count_with_noun(callers, "caller"));
    let mut case = Case::new(name(nodes, callers), title, figure);
    let task = |plain: bool| Task {
        nodes: cluster.urls(),
        callers,
        first_caller: 0,
        ttl_ms: TTL_MS,
        plain,
        ..Task::default()
    };
    let floor = |plain: bool, recordings: &[Recording]| {
        let task = Task { recordings: recordings.to_vec(), ..task(plain) };
        Worker::of_this_program("floor", &task, options.turn_length)
    };
    case.add(FLOOR, floor(true, &cluster.plain)?);
    case.add(OURS, Worker::of_this_program("own", &task(true), options.turn_length)?);
    case.add_optional(RSLOCK, peers::rust("rslock", &task(true), options));
    case.add_optional("node redlock", peers::node(&task(true), options));
    if callers == 1 {
        add_etcd(&mut case, nodes, &task(true), options);
    }
    case.about = description(nodes, callers);
    case.add(FLOOR_FENCED, floor(false, &cluster.fenced)?);
    case.add(OURS_FENCED, Worker::of_this_program("own", &task(false), options.turn_length)?);
    if nodes == 5 {
        let one_thread_task = |plain| Task { one_thread: true, ..task(plain) };
        case.add(OURS_ONE_THREAD, Worker::of_this_program("own", &one_thread_task(true), options.turn_length)?);
        case.add(OURS_FENCED_ONE_THREAD, Worker::of_this_program("own", &one_thread_task(false), options.turn_length)?);
        case.add_optional(RSLOCK_ONE_THREAD, peers::rust("rslock", &one_thread_task(true), options));
    }
    if callers == 512 {
        let plain = || Ceiling::new(&cluster.servers, &cluster.plain, PLAIN_CEILING_REQUESTS);
        let fenced = || Ceiling::new(&cluster.servers, &cluster.fenced, FENCED_CEILING_REQUESTS);
        case.add(CEILING, plain());
        case.add(CEILING_FENCED, fenced());
        let bundles = |plain| options.runtime.block_on(cluster.bundles(plain));
        case.add(CEILING_BUNDLED, plain().with_bundles(&bundles(true)?));
        case.add(CEILING_FENCED_BUNDLED, fenced().with_bundles(&bundles(false)?));
    }
    case.bars = bars(nodes, callers);
    case.keep_alive(cluster);
    Ok(case)
}

/// The description of a case.
fn description(nodes: usize, callers: usize) -> String {
    let no_etcd =
        (callers > 1).then_some("This case has no etcd, which would need seconds for one cycle of each caller.");
    let threads = (nodes == 5).then_some(
        "Rows with *one thread* use a runtime with one thread. *floor* and *node redlock* also have one thread. The \
         other libraries have two threads.",
    );
    no_etcd.into_iter().chain(threads).collect::<Vec<_>>().join(" ")
}

/// Starts one etcd member for each of our nodes.
fn add_etcd(case: &mut Case, nodes: usize, task: &Task, options: &Options) {
    let worker = Etcd::start(nodes, options).and_then(|etcd| {
        let task = Task { nodes: etcd.addresses(), ..task.clone() };
        case.keep_alive(etcd);
        peers::rust("etcd", &task, options)
    });
    case.add_optional("etcd", worker);
}

fn bars(nodes: usize, callers: usize) -> Vec<Bar> {
    match (nodes, callers) {
        (1, 1) => vec![Bar::ratio(OURS, P50, FLOOR, Limit::AtMost(1.15))],
        (5, 1) => vec![
            Bar::ratio(OURS, P50, FLOOR, Limit::AtMost(1.3)),
            Bar::ratio(OURS_FENCED, P50, FLOOR_FENCED, Limit::AtMost(1.3)),
            Bar::ratio(OURS, P50, RSLOCK, Limit::AtMost(0.6)),
            Bar::ratio(OURS_ONE_THREAD, P50, FLOOR, Limit::AtMost(1.3)),
            Bar::ratio(OURS_FENCED_ONE_THREAD, P50, FLOOR_FENCED, Limit::AtMost(1.3)),
            Bar::ratio(OURS_ONE_THREAD, P50, RSLOCK_ONE_THREAD, Limit::AtMost(0.6)),
        ],
        (5, 64) => vec![
            Bar::ratio(OURS, RATE, RSLOCK, Limit::AtLeast(2.5)),
            Bar::ratio(OURS_ONE_THREAD, RATE, RSLOCK_ONE_THREAD, Limit::AtLeast(2.5)),
        ],
        (5, 512) => vec![
            Bar::ratio(OURS, RATE, CEILING, Limit::AtLeast(0.9)),
            Bar::ratio(OURS, RATE, CEILING_BUNDLED, Limit::AtLeast(0.9)),
            Bar::ratio(OURS, RATE, RSLOCK, Limit::AtLeast(3.0)),
            Bar::ratio(OURS_FENCED, RATE, CEILING_FENCED, Limit::AtLeast(0.8)),
            Bar::ratio(OURS_FENCED, RATE, CEILING_FENCED_BUNDLED, Limit::AtLeast(0.8)),
            Bar::ratio(OURS_FENCED, RATE, RSLOCK, Limit::AtLeast(1.5)),
            Bar::ratio(OURS_ONE_THREAD, RATE, CEILING, Limit::AtLeast(0.9)),
            Bar::ratio(OURS_ONE_THREAD, RATE, RSLOCK_ONE_THREAD, Limit::AtLeast(3.0)),
            Bar::ratio(OURS_FENCED_ONE_THREAD, RATE, CEILING_FENCED, Limit::AtLeast(0.8)),
            Bar::ratio(OURS_FENCED_ONE_THREAD, RATE, RSLOCK_ONE_THREAD, Limit::AtLeast(1.5)),
        ],
        _ => Vec::new(),
    }
}
