//! Locks over HTTP: what the service adds to the library that it is made of.

use std::sync::Arc;

use super::Planned;
use crate::Failure;
use crate::case::{Bar, Case, Limit, P50, RATE};
use crate::etcd::Etcd;
use crate::options::Options;
use crate::parrot::Parrot;
use crate::peers;
use crate::service::{Service, Serviced};
use crate::worker::load::ADDED;
use crate::worker::{Cores, Task, Worker};

const TTL_MS: u64 = 30_000;
const CALLERS: usize = 64;
const ADDED_MAX: f64 = 150.0;
const RATE_MIN: f64 = 20_000.0;
const DIRECT: &str = "ours, called directly";
const OVER_HTTP: &str = "ours, over HTTP";
const ON_ONE_CORE: &str = "ours, over HTTP, on one core";
const FLOOR: &str = "floor: answers that were written down";

const ABOUT: &str = "Lock and release with fences, each a request over a connection that stays. `quorlock serve` has a process \
    of its own with a memory node in it, and is quiet; another process has all callers in one thread. The library is called as \
    the service calls it. etcd is one member, by its own client, and writes every change to disk, which a memory node does not.";

const ABOUT_ONE_CORE: &str = " *On one core* caller and service run there both: what is left is the work that a request is, \
    without the wake-ups of another core for each request and each answer. The *floor* is the same requests to a thread that blocks \
    in read and answers with the same bytes every time: what a message there and back costs on this machine, whatever is \
    behind it.";

pub(crate) fn planned() -> Vec<Planned> {
    vec![Planned::new("http-1", alone), Planned::new("http-64", together)]
}

fn alone(options: &Options) -> Result<Case, Failure> {
    let case = Case::new("http-1", "Over HTTP: lock and release on a memory node, 1 caller", P50);
    let mut case = set_up(case, "http-beside", 1, options)?;
    case.about.push_str(ABOUT_ONE_CORE);
    case.add_if(ON_ONE_CORE, over_http(Cores::One, "http-beside", 1, options));
    let parrot = Parrot::start()?;
    case.add(FLOOR, Worker::of_this_program("http-beside", &task(vec![parrot.address()], 1), options.length)?);
    case.keep(parrot);
    for contender in [OVER_HTTP, ON_ONE_CORE] {
        case.bars.push(Bar::figure(contender, ADDED, Limit::AtMost(ADDED_MAX)));
    }
    Ok(case)
}

fn together(options: &Options) -> Result<Case, Failure> {
    let case = Case::new("http-64", "Over HTTP: lock and release on a memory node, 64 callers, a name each", RATE);
    let mut case = set_up(case, "http", CALLERS, options)?;
    case.bars.push(Bar::figure(OVER_HTTP, RATE, Limit::AtLeast(RATE_MIN)));
    Ok(case)
}

fn set_up(mut case: Case, load: &str, callers: usize, options: &Options) -> Result<Case, Failure> {
    case.about = ABOUT.into();
    let task = |nodes| task(nodes, callers);
    case.add(DIRECT, Worker::of_this_program("handed-over", &task(Vec::new()), options.length)?);
    case.add(OVER_HTTP, over_http(Cores::All, load, callers, options)?);
    let etcd = Etcd::start(1, options).and_then(|etcd| {
        let worker = peers::rust("etcd", &task(etcd.addresses()), options);
        case.keep(etcd);
        worker
    });
    case.add_if("etcd", etcd);
    Ok(case)
}

fn task(nodes: Vec<String>, callers: usize) -> Task {
    Task { nodes, callers, first: 0, ttl_ms: TTL_MS, plain: false, ..Task::default() }
}

fn over_http(cores: Cores, load: &str, callers: usize, options: &Options) -> Result<Serviced<Worker>, Failure> {
    let service = Arc::new(Service::start(cores)?);
    let contender = Worker::on(cores, load, &task(vec![service.address()], callers), options.length)?;
    Ok(Serviced { contender, service, length: options.length })
}
