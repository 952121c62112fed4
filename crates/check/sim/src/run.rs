//! Runs the plan of one seed, from the first connection to the check after the last release.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use quorlock::{Client, Rule, Rules, sim};
use quorlock_core::rng::Seeded;

use crate::clock::Clock;
use crate::ledger::Ledger;
pub use crate::ledger::{Counts, Violation};
use crate::plan::{Fault, NodePlan, Plan};
use crate::shape::Shape;
use crate::user::{Clients, User, name};
use crate::world::{MS, NODE_CLOCK_START, STEPS_MAX, Server, State, World};

/// The virtual time after the last fault within which all tasks must end, in nanoseconds.
const WAIT_NANOS_MAX: u64 = 90_000 * MS;
/// The timeout for closing a client.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The virtual time within which all messages of closed clients arrive, in nanoseconds.
const DELIVERY_TIME: u64 = 3_000 * MS;

/// The options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A rule to switch off.
    pub without: Option<Rule>,
    /// Whether to record a trace.
    pub has_trace: bool,
    /// A deliberate bug of the nodes.
    pub flaw: Option<Flaw>,
}

/// A deliberate bug of the nodes, to test that the simulation detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A retirement leaves no tombstone.
    RetirementWithoutTombstone,
    /// A retirement acts on every name of the owner.
    RetirementFromAllNames,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The violation, if there was one.
    pub violation: Option<Violation>,
    /// Whether a fault broke an assumption, so that leases may have overlapped.
    pub is_beyond_assumptions: bool,
    /// The counts of the run.
    pub counts: Counts,
    /// The faults that happened.
    pub faults: Vec<Fault>,
    /// The number of requests and replies of each kind on the nodes.
    pub shape: Shape,
    /// A hash of all events. Equal runs have equal hashes.
    pub fingerprint: u64,
    /// The number of polls of tasks, and of events such as arriving messages.
    pub steps: u64,
    /// The virtual time of the run.
    pub virtual_time: Duration,
    /// The events as text, if requested.
    pub trace: Vec<String>,
}

/// A random seed that is short enough to type.
pub fn fresh_seed() -> u64 {
    use std::hash::BuildHasher;
    // The standard library gets these keys from the operating system.
    std::collections::hash_map::RandomState::new().hash_one(0) >> 32
}

/// Runs the plan of a seed.
pub fn run(seed: u64, options: Options) -> Outcome {
    run_plan(Plan::of(seed), options)
}

/// Runs a plan.
pub fn run_plan(plan: Plan, options: Options) -> Outcome {
    let plan = Rc::new(plan);
    let mut rng = Seeded::new(plan.seed ^ 0x5eed);
    let ledger = Ledger::new(plan.is_beyond_assumptions);
    let servers = plan.nodes.iter().enumerate().map(|(index, node)| new_server(&plan, index, node, options)).collect();
    let world = World::new(rng.fork(), plan.network.clone(), servers, options.has_trace, ledger);
    let world_guard = sim::enter(Rc::clone(&world) as Rc<dyn sim::World>);
    let simulated = catch_unwind(AssertUnwindSafe(|| simulate(&world, &plan, options)));
    let panic_message = simulated.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    });
    world.end();
    drop(world_guard);
    let mut state = world.state.borrow_mut();
    let violation = state.ledger.violation.clone().or(panic_message.map(Violation::Panicked));
    let (now, fingerprint, steps, counts) = (state.now, state.fingerprint, state.steps, state.ledger.counts);
    let shape = state.shape;
    if let Some(violation) = &violation {
        state.trace.add(now, "", || format!("=> {violation}"));
    }
    let (trace, virtual_time) = (state.trace.take(), Duration::from_nanos(now));
    let faults = plan.faults.iter().map(|(_, fault)| *fault).collect();
    Outcome {
        violation,
        is_beyond_assumptions: plan.is_beyond_assumptions,
        counts,
        faults,
        shape,
        fingerprint,
        steps,
        virtual_time,
        trace,
    }
}

/// A node of the plan. If the options switch off a rule or have a flaw, the node behaves accordingly.
fn new_server(plan: &Plan, index: usize, node: &NodePlan, options: Options) -> Server {
    let reading = NODE_CLOCK_START.saturating_add_signed(node.clock_ahead_micros * 1_000);
    let mut server = Server::new(index, Clock::new(reading, node.clock_rate_ppm));
    if !plan.is_blank {
        server.init_voting(plan.constants());
        for (at, ahead) in node.fences.iter().enumerate() {
            if let Some(ahead_micros) = ahead {
                server.store_fence(format!("quorlock:{}", name(at)), *ahead_micros);
            }
        }
    }
    server.set_raises_any_vote(options.without == Some(Rule::RaiseOwnVotes));
    server.set_flaw(options.flaw);
    server.set_adds_up_claims(options.without == Some(Rule::HighestClaim));
    server
}

/// Runs the plan, first with faults, then without faults until all tasks have ended, and closes all clients.
fn simulate(world: &Rc<World>, plan: &Rc<Plan>, options: Options) {
    let clients: Clients = Rc::default();
    {
        let mut state = world.state.borrow_mut();
        for client in &plan.clients {
            let index = state.add_client(client.clock_rate_ppm);
            state.clients[index].open_tasks = 1;
            clients.borrow_mut().push(None);
        }
        for (at, fault) in plan.faults.iter().chain(&plan.rate_changes()) {
            state.schedule_fault(*at, *fault);
        }
    }
    for index in 0..plan.clients.len() {
        world.spawn_task(index, start_client(Rc::clone(world), Rc::clone(plan), index, Rc::clone(&clients), options));
    }
    let has_violation = |state: &State| state.ledger.violation.is_some();
    if world.run_until(plan.horizon_nanos, has_violation) {
        return check_step_limit(world);
    }
    world.end_faults();
    if world.run_until(plan.horizon_nanos + WAIT_NANOS_MAX, |state| has_violation(state) || state.is_done())
        && !is_done(world)
    {
        return check_step_limit(world);
    }
    if !is_done(world) {
        if world.state.borrow().needs_an_operator() {
            world.state.borrow_mut().ledger.counts.ended_early += 1;
            return;
        }
        let open_tasks: usize = world.state.borrow().clients.iter().map(|client| client.open_tasks).sum();
        return record_violation(world, Violation::WaiterStarved(format!("{open_tasks} of the tasks")));
    }
    close(world, &clients);
}

/// Connects a client, and starts its tasks.
async fn start_client(world: Rc<World>, plan: Rc<Plan>, index: usize, clients: Clients, options: Options) {
    let client = &plan.clients[index];
    sim::sleep(client.connects_after).await;
    let mut builder = Client::builder().simulated(plan.nodes.len()).label(crate::world::client_name(index));
    builder = builder
        .ttl(plan.ttl)
        .max_ttl(plan.max_ttl)
        .max_clock_skew(plan.max_clock_skew)
        .max_clock_step_back(plan.max_clock_step_back);
    builder = builder.rules(options.without.map_or(Rules::default(), Rules::without));
    if let Some(deadline) = plan.node_deadline {
        builder = builder.node_deadline(deadline);
    }
    let connected = builder.connect_lazy().await;
    let mut state = world.state.borrow_mut();
    state.clients[index].open_tasks -= 1;
    let now = state.now;
    let library = match connected {
        Ok(library) => library,
        Err(error) => return state.trace.add_of_client(now, index, || format!("cannot connect: {error}")),
    };
    state.trace.add_of_client(now, index, || "is connected".into());
    clients.borrow_mut()[index] = Some(library.clone());
    state.clients[index].open_tasks += client.tasks.len();
    drop(state);
    for jobs in &client.tasks {
        let (world, plan, library) = (Rc::clone(&world), Rc::clone(&plan), library.clone());
        let user = User { world: Rc::clone(&world), plan, client: index, library, clients: Rc::clone(&clients) };
        world.spawn_task(index, user.do_jobs(jobs.clone()));
    }
}

/// Closes every client, and checks that no votes and queue positions of these clients are left on the nodes.
fn close(world: &Rc<World>, clients: &Clients) {
    let all: Vec<Option<Client>> = clients.borrow_mut().iter_mut().map(Option::take).collect();
    for (index, client) in all.into_iter().enumerate() {
        world.run_as(index);
        let is_alive = world.state.borrow().clients[index].is_alive;
        let Some(client) = client.filter(|_| is_alive) else { continue };
        world.state.borrow_mut().clients[index].open_tasks += 1;
        let world_of_task = Rc::clone(world);
        world.spawn_task(index, async move {
            let closed = client.close(CLOSE_TIMEOUT).await;
            let mut state = world_of_task.state.borrow_mut();
            state.clients[index].open_tasks -= 1;
            if let Err(error) = closed {
                state.ledger.violation.get_or_insert(Violation::LeftBehind(vec![error.to_string()]));
            }
        });
    }
    let end = world.now() + CLOSE_TIMEOUT.as_nanos() as u64 * 2;
    world.run_until(end, |state| state.ledger.violation.is_some() || state.is_done());
    let end = world.now() + DELIVERY_TIME;
    world.run_until(end, |state| state.ledger.violation.is_some() || state.is_quiet());
    let leftovers = world.state.borrow_mut().leftovers();
    if !leftovers.is_empty() {
        record_violation(world, Violation::LeftBehind(leftovers));
    }
}

fn is_done(world: &World) -> bool {
    world.state.borrow().is_done()
}

fn record_violation(world: &World, violation: Violation) {
    world.state.borrow_mut().ledger.violation.get_or_insert(violation);
}

/// If the run has stopped at its limit of steps, records that a client sends requests without end.
fn check_step_limit(world: &World) {
    let is_endless = world.state.borrow().steps > STEPS_MAX;
    if is_endless {
        record_violation(world, Violation::EndlessRequests);
    }
}
