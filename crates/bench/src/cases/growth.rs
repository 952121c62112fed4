//! How the cost grows: with nodes, callers, names that are held, and waiters.

use std::process::Command;

use super::{Planned, counted, handoff};
use crate::Failure;
use crate::case::{Case, P50, RATE};
use crate::options::Options;
use crate::stage::Stage;
use crate::worker::{Task, Worker};

const TTL_MS: u64 = 30_000;
const NODES: [usize; 5] = [1, 3, 5, 7, 9];
const CALLERS: [usize; 7] = [1, 4, 16, 64, 256, 1_024, 4_096];
const HELD: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const WAITERS: [usize; 4] = [1, 10, 100, 1_000];
/// Waiters share so many clients.
const CLIENTS_MAX: usize = 8;
/// As many turns as show a spread.
const TURNS: usize = 3;
/// Votes of others, as a node has them.
const HOLD: &str = "for i = 1, ARGV[1] do redis.call('SET', 'quorlock:held/' .. i, i, 'PX', 3600000) end return 1";

pub(crate) fn planned() -> Vec<Planned> {
    vec![
        Planned::new("growth-nodes", nodes),
        Planned::new("growth-callers", callers),
        Planned::new("growth-held", held),
        Planned::new("growth-waiters", waiters),
    ]
}

fn case(name: &str, title: &str, figure: &'static str, axis: &'static str) -> Case {
    let mut case = Case::new(name, title, figure);
    case.axis = Some(axis);
    case.turns = Some(TURNS);
    case
}

/// Ours on these servers, without a fence and with one.
fn add_both(case: &mut Case, what: &str, stage: &Stage, callers: usize, options: &Options) -> Result<(), Failure> {
    for (plain, kind) in [(true, ""), (false, ", fenced")] {
        let nodes = stage.urls();
        let task = Task { nodes, callers, first: 0, ttl_ms: TTL_MS, plain, ..Task::default() };
        case.add(format!("{what}{kind}"), Worker::of_this_program("own", &task, options.length)?);
    }
    Ok(())
}

fn nodes(options: &Options) -> Result<Case, Failure> {
    let mut case = case("growth-nodes", "Growth: nodes, with 1 caller", P50, "nodes");
    for nodes in NODES {
        let stage = options.runtime.block_on(Stage::set(nodes))?;
        add_both(&mut case, &counted(nodes, "node"), &stage, 1, options)?;
        case.keep(stage);
    }
    Ok(case)
}

fn callers(options: &Options) -> Result<Case, Failure> {
    let mut case = case("growth-callers", "Growth: callers, on 5 nodes", RATE, "callers");
    let stage = options.runtime.block_on(Stage::set(5))?;
    for callers in CALLERS {
        add_both(&mut case, &counted(callers, "caller"), &stage, callers, options)?;
    }
    case.keep(stage);
    Ok(case)
}

fn held(options: &Options) -> Result<Case, Failure> {
    let mut case = case("growth-held", "Growth: names that others hold, on 1 node with 1 caller", P50, "names");
    for names in HELD {
        let stage = options.runtime.block_on(Stage::set(1))?;
        let port = stage.servers[0].port().to_string();
        let filled = Command::new("redis-cli").args(["-p", &port, "EVAL", HOLD, "0", &names.to_string()]).output()?;
        if filled.stdout.trim_ascii() != b"1" {
            return Err("the names could not be filled in".into());
        }
        add_both(&mut case, &counted(names, "name"), &stage, 1, options)?;
        case.keep(stage);
    }
    Ok(case)
}

fn waiters(options: &Options) -> Result<Case, Failure> {
    let mut case = case("growth-waiters", "Growth: waiters for one name, handoff over 5 nodes", P50, "waiters");
    handoff::growth(&mut case, &WAITERS, CLIENTS_MAX, options)?;
    Ok(case)
}
