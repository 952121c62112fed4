//! Five nodes, and something wrong with some of them: ours against ours on healthy ones, and peers.

use std::time::Duration;

use quorlock_testkit::Proxy;

use super::Planned;
use crate::Failure;
use crate::case::{Bar, Case, Limit, P99};
use crate::options::Options;
use crate::peers;
use crate::stage::Stage;
use crate::worker::{Task, Worker};

const NODES: usize = 5;
const TTL_MS: u64 = 30_000;
/// There and back.
const SLOW: Duration = Duration::from_millis(25);
const HEALTHY: &str = "ours, all healthy";
const HEALTHY_FENCED: &str = "ours, fenced, all healthy";
const OURS: &str = "ours";
const OURS_FENCED: &str = "ours, fenced";

/// What is wrong.
#[derive(Clone, Copy)]
enum Damage {
    Frozen,
    Slow,
    Killed,
}

pub(crate) fn planned() -> Vec<Planned> {
    let case =
        |(name, title, damage)| Planned::new(name, move |options: &Options| set_up(name, title, damage, options));
    let all = [
        ("frozen", "5 nodes, 1 caller: one of them is frozen", Damage::Frozen),
        ("slow", "5 nodes, 1 caller: one of them is slow by 50 ms", Damage::Slow),
        ("killed", "5 nodes, 1 caller: two of them were killed", Damage::Killed),
    ];
    all.into_iter().map(case).collect()
}

fn set_up(name: &str, title: &str, damage: Damage, options: &Options) -> Result<Case, Failure> {
    let (healthy, damaged) =
        options.runtime.block_on(async { Ok::<_, Failure>((Stage::set(NODES).await?, Stage::set(NODES).await?)) })?;
    let mut case = Case::new(name, title, P99);
    let mut urls = damaged.urls();
    if let Damage::Slow = damage {
        let proxy = Proxy::start(damaged.servers[0].addr());
        proxy.delay(SLOW);
        urls[0] = proxy.url();
        case.keep(proxy);
    }
    let task = |nodes: &[String], plain| Task {
        nodes: nodes.to_vec(),
        callers: 1,
        first: 0,
        ttl_ms: TTL_MS,
        plain,
        ..Task::default()
    };
    let own = |nodes: &[String], plain| Worker::of_this_program("own", &task(nodes, plain), options.length);
    case.add(HEALTHY, own(&healthy.urls(), true)?);
    case.add(OURS, own(&urls, true)?);
    case.add(HEALTHY_FENCED, own(&healthy.urls(), false)?);
    case.add(OURS_FENCED, own(&urls, false)?);
    case.add_if("rslock", peers::rust("rslock", &task(&urls, true), options));
    case.add_if("distributed-lock", peers::rust("distributed-lock", &task(&urls, true), options));
    case.add_if("node redlock", peers::node(&task(&urls, true), options));
    // Everybody meets them in good health.
    case.warm_up()?;
    match damage {
        Damage::Frozen => damaged.servers[0].freeze(),
        Damage::Slow => {}
        Damage::Killed => damaged.servers[..2].iter().for_each(quorlock_testkit::RedisServer::kill),
    }
    if let Damage::Frozen = damage {
        case.bars.push(Bar::ratio(OURS, P99, HEALTHY, Limit::AtMost(1.2)));
        case.bars.push(Bar::ratio(OURS_FENCED, P99, HEALTHY_FENCED, Limit::AtMost(1.2)));
    }
    case.keep(healthy);
    case.keep(damaged);
    Ok(case)
}
