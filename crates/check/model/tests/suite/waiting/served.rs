//! With all rules every waiter is served, in any order of delivery and with various faults.
//!
//! The schedules are random, but fair in the long run; a failure names its seed.

use quorlock_core::name::OwnerId;
use quorlock_core::terms::Mode;
use quorlock_model::queue::world::{Flaws, World};

/// The faults of a schedule.
#[derive(Clone, Copy, Default)]
struct Mishaps {
    flaws: Flaws,
    /// Lost messages per thousand.
    lost: u64,
    /// Turns per thousand in which a node forgets a queue position.
    forgotten: u64,
    /// Turns per thousand in which time passes before everything is delivered.
    late: u64,
    /// The client that dies, and the turn of its death.
    death: Option<(usize, usize)>,
}

/// Longer than any wait, even if a few holders or voters have to expire one after the other.
const PATIENCE: f64 = 120.0;

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of_thousand(&mut self, share: u64) -> bool {
        (self.below(1_000) as u64) < share
    }
}

/// Carries out events in a random order until every waiter is served. Returns the seconds that took.
fn serve(nodes: usize, modes: &[Mode], mishaps: Mishaps, seed: u64) -> f64 {
    let mut chance = Chance(seed);
    let mut world = World::new(nodes, modes, true, mishaps.flaws, Some(seed));
    let mut turn = 0;
    while !world.unserved().is_empty() {
        assert!(world.seconds() < PATIENCE, "seed {seed}: {:?} are not served", world.unserved());
        turn += 1;
        if let Some((client, _)) = mishaps.death.filter(|(_, at)| *at == turn) {
            world.kill(client);
            continue;
        }
        if chance.of_thousand(mishaps.forgotten) {
            world.forget_place(chance.below(nodes), chance.below(modes.len()));
        }
        let actions = world.enabled();
        if actions.is_empty() || chance.of_thousand(mishaps.late) {
            assert!(world.pass_time() || !actions.is_empty(), "seed {seed}: no client asks any more");
            continue;
        }
        let action = actions[chance.below(actions.len())];
        if !(chance.of_thousand(mishaps.lost) && world.lose(action)) {
            world.act(action);
        }
    }
    world.seconds()
}

/// Tries this many schedules. Returns the seconds that each took, sorted.
fn serve_all(nodes: usize, modes: &[Mode], mishaps: Mishaps, schedules: u64) -> Vec<f64> {
    let mut took: Vec<f64> = (0..schedules).map(|seed| serve(nodes, modes, mishaps, seed)).collect();
    took.sort_by(f64::total_cmp);
    took
}

fn exclusive(clients: usize) -> Vec<Mode> {
    vec![Mode::EXCLUSIVE; clients]
}

fn slots(clients: usize, permits: u32) -> Vec<Mode> {
    vec![Mode::Slot { permits, slot: 0 }; clients]
}

/// Alternating readers and writers.
fn mixed(clients: u128) -> Vec<Mode> {
    let mode = |client: u128| match OwnerId::from_bits(client) {
        owner if client.is_multiple_of(2) => Mode::Shared { owner, reenters: false },
        owner => Mode::Exclusive { writer: Some(owner) },
    };
    (0..clients).map(mode).collect()
}

fn kinds() -> [Vec<Mode>; 3] {
    [exclusive(4), mixed(5), slots(4, 2)]
}

fn everyone_is_served_with(mishaps: Mishaps) {
    for modes in kinds() {
        serve_all(3, &modes, mishaps, 100);
    }
}

#[test]
fn hints_are_enough_without_faults() {
    for modes in kinds() {
        for nodes in [1, 3, 5] {
            let took = serve_all(nodes, &modes, Mishaps::default(), 100);
            let (half, longest) = (took[took.len() / 2], took[took.len() - 1]);
            assert!(half < 0.001, "usually no time has to pass: {half} s");
            assert!(longest < 0.7, "at worst one or two node deadlines, but never a poll: {longest} s");
        }
    }
}

#[test]
fn everyone_is_served_with_a_node_down() {
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, ..Mishaps::default() });
}

#[test]
fn hints_work_with_a_node_down() {
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    let took = serve_all(3, &exclusive(4), Mishaps { flaws, ..Mishaps::default() }, 100);
    assert!(took[took.len() / 2] < 0.001, "{took:?}");
}

#[test]
fn crossed_slots_are_resolved() {
    // Two nodes are left, and each of two clients has one slot on one node and the other slot on the other.
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    let took = serve_all(3, &slots(4, 2), Mishaps { flaws, ..Mishaps::default() }, 100);
    assert!(took[took.len() - 1] < 5.0, "{took:?}");
}

#[test]
fn everyone_is_served_without_hints() {
    let flaws = Flaws { hints_lost: true, ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, ..Mishaps::default() });
}

#[test]
fn everyone_else_is_served_when_a_waiter_dies() {
    for (client, turn) in [(0, 1), (0, 10), (1, 10), (0, 20), (1, 40)] {
        everyone_is_served_with(Mishaps { death: Some((client, turn)), ..Mishaps::default() });
    }
}

#[test]
fn everyone_is_served_despite_forgotten_positions() {
    everyone_is_served_with(Mishaps { forgotten: 50, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_despite_lost_messages() {
    everyone_is_served_with(Mishaps { lost: 100, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_despite_late_messages() {
    everyone_is_served_with(Mishaps { late: 100, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_with_all_faults_at_once() {
    let flaws = Flaws { down: Some(2), ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, lost: 50, forgotten: 20, late: 50, death: Some((1, 30)) });
}
