//! With all rules everyone is served, whatever is delivered when, and with one thing or another broken.
//!
//! Schedules are drawn from seeds and fair in the long run; a failure names its seed.

use quorlock_core::mode::{Mode, OwnerId};
use quorlock_model::queue::world::{Flaws, World};

/// What may go wrong on the way.
#[derive(Clone, Copy, Default)]
struct Mishaps {
    flaws: Flaws,
    /// Of a thousand messages, how many get lost.
    lost: u64,
    /// Of a thousand turns, in how many a node forgets a place in the queue.
    forgotten: u64,
    /// Of a thousand turns, in how many time passes before everything is delivered.
    late: u64,
    /// In which turn this client dies.
    death: Option<(usize, usize)>,
}

/// No wait can be longer than this, with a few holders or voters that have to lapse one after the other.
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

/// Lets things happen in a random order until everyone is served. How many seconds that took.
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
            assert!(world.pass_time() || !actions.is_empty(), "seed {seed}: nobody asks any more");
            continue;
        }
        let action = actions[chance.below(actions.len())];
        if !(chance.of_thousand(mishaps.lost) && world.lose(action)) {
            world.act(action);
        }
    }
    world.seconds()
}

/// Tries so many schedules. How many seconds each took, the shortest first.
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

/// Readers and writers, one after the other.
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
fn hints_are_enough_where_nothing_goes_wrong() {
    for modes in kinds() {
        for nodes in [1, 3, 5] {
            let took = serve_all(nodes, &modes, Mishaps::default(), 100);
            let (half, longest) = (took[took.len() / 2], took[took.len() - 1]);
            assert!(half < 0.001, "as a rule, no time has to pass: {half} s");
            assert!(longest < 0.7, "at worst a node deadline or two, but never a poll: {longest} s");
        }
    }
}

#[test]
fn everyone_is_served_with_a_node_down() {
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, ..Mishaps::default() });
}

#[test]
fn a_node_that_is_down_does_not_make_hints_useless() {
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    let took = serve_all(3, &exclusive(4), Mishaps { flaws, ..Mishaps::default() }, 100);
    assert!(took[took.len() / 2] < 0.001, "{took:?}");
}

#[test]
fn slots_that_are_crossed_come_apart() {
    // Two nodes are left, and each of two clients has one slot on the one and the other slot on the other.
    let flaws = Flaws { down: Some(1), ..Flaws::default() };
    let took = serve_all(3, &slots(4, 2), Mishaps { flaws, ..Mishaps::default() }, 100);
    assert!(took[took.len() - 1] < 5.0, "{took:?}");
}

#[test]
fn everyone_is_served_without_hints() {
    let flaws = Flaws { deaf: true, ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, ..Mishaps::default() });
}

#[test]
fn everyone_else_is_served_when_one_dies() {
    for (client, turn) in [(0, 1), (0, 10), (1, 10), (0, 20), (1, 40)] {
        everyone_is_served_with(Mishaps { death: Some((client, turn)), ..Mishaps::default() });
    }
}

#[test]
fn everyone_is_served_though_places_are_forgotten() {
    everyone_is_served_with(Mishaps { forgotten: 50, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_though_messages_are_lost() {
    everyone_is_served_with(Mishaps { lost: 100, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_though_messages_are_late() {
    everyone_is_served_with(Mishaps { late: 100, ..Mishaps::default() });
}

#[test]
fn everyone_is_served_with_all_of_it_at_once() {
    let flaws = Flaws { down: Some(2), ..Flaws::default() };
    everyone_is_served_with(Mishaps { flaws, lost: 50, forgotten: 20, late: 50, death: Some((1, 30)) });
}
