//! With all rules every waiter is served (gets the lock), in random orders of delivery and with various faults. The
//! schedules are fair in the long run: every message arrives or is lost, and every timer fires. A failure names the seed
//! of its schedule.

use quorlock_core::name::OwnerId;
use quorlock_core::terms::Mode;
use quorlock_model::queue::world::{Flaws, World};

/// The faults of a schedule.
#[derive(Clone, Copy, Default)]
struct Faults {
    flaws: Flaws,
    /// How many of 1,000 messages are lost.
    lost_permille: u64,
    /// In how many of 1,000 steps a node forgets a queue position.
    forgotten_positions_permille: u64,
    /// In how many of 1,000 steps time passes before all messages in flight are delivered.
    late_messages_permille: u64,
    /// The client that dies, and the step of its death.
    waiter_death: Option<(usize, usize)>,
}

/// A time longer than any wait, in seconds, even if the votes of a few clients have to expire one after the other.
const WAIT_SECS_MAX: f64 = 120.0;

struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn happens(&mut self, permille: u64) -> bool {
        (self.below(1_000) as u64) < permille
    }
}

/// Carries out events in a random order until every waiter is served. Returns the elapsed virtual time, in seconds.
fn serve(nodes: usize, modes: &[Mode], faults: Faults, seed: u64) -> f64 {
    let mut random = RandomNumbers(seed);
    let mut world = World::new(nodes, modes, true, faults.flaws, Some(seed));
    let mut step = 0;
    while !world.unserved().is_empty() {
        assert!(world.elapsed_secs() < WAIT_SECS_MAX, "seed {seed}: {:?} are not served", world.unserved());
        step += 1;
        if let Some((client, _)) = faults.waiter_death.filter(|(_, at)| *at == step) {
            world.kill(client);
            continue;
        }
        if random.happens(faults.forgotten_positions_permille) {
            world.forget_position(random.below(nodes), random.below(modes.len()));
        }
        let actions = world.next_actions();
        if actions.is_empty() || random.happens(faults.late_messages_permille) {
            assert!(world.pass_time() || !actions.is_empty(), "seed {seed}: no client sends requests any more");
            continue;
        }
        let action = actions[random.below(actions.len())];
        if !(random.happens(faults.lost_permille) && world.lose(action)) {
            world.act(action);
        }
    }
    world.elapsed_secs()
}

/// Serves all waiters in `schedules` schedules. Returns the virtual time of each schedule in seconds, in ascending order.
fn serve_all(nodes: usize, modes: &[Mode], faults: Faults, schedules: u64) -> Vec<f64> {
    let mut times: Vec<f64> = (0..schedules).map(|seed| serve(nodes, modes, faults, seed)).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn exclusive(clients: usize) -> Vec<Mode> {
    vec![Mode::EXCLUSIVE; clients]
}

fn slots(clients: usize, permits: u32) -> Vec<Mode> {
    vec![Mode::Slot { permits, slot: 0 }; clients]
}

/// Alternating readers and writers.
fn readers_and_writers(clients: u128) -> Vec<Mode> {
    let mode = |client: u128| match OwnerId::from_bits(client) {
        owner if client.is_multiple_of(2) => Mode::Shared { owner, reenters: false },
        owner => Mode::Exclusive { writer: Some(owner) },
    };
    (0..clients).map(mode).collect()
}

/// The modes of the clients, for each kind of lock that can have waiters.
fn modes_of_all_kinds() -> [Vec<Mode>; 3] {
    [exclusive(4), readers_and_writers(5), slots(4, 2)]
}

fn assert_everyone_is_served_with(faults: Faults) {
    for modes in modes_of_all_kinds() {
        serve_all(3, &modes, faults, 100);
    }
}

#[test]
fn hints_are_enough_without_faults() {
    for modes in modes_of_all_kinds() {
        for nodes in [1, 3, 5] {
            let times = serve_all(nodes, &modes, Faults::default(), 100);
            let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
            assert!(median < 0.001, "the median wait must be short: {median} s");
            assert!(longest < 0.7, "the longest wait must be shorter than a poll: {longest} s");
        }
    }
}

#[test]
fn everyone_is_served_with_a_node_down() {
    let flaws = Flaws { unreachable_node: Some(1), ..Flaws::default() };
    assert_everyone_is_served_with(Faults { flaws, ..Faults::default() });
}

#[test]
fn hints_work_with_a_node_down() {
    let flaws = Flaws { unreachable_node: Some(1), ..Flaws::default() };
    let times = serve_all(3, &exclusive(4), Faults { flaws, ..Faults::default() }, 100);
    assert!(times[times.len() / 2] < 0.001, "{times:?}");
}

#[test]
fn clients_that_have_different_slots_on_each_node_are_served() {
    // With two nodes left, two clients may each have a slot on the first node and the other slot on the second node.
    let flaws = Flaws { unreachable_node: Some(1), ..Flaws::default() };
    let times = serve_all(3, &slots(4, 2), Faults { flaws, ..Faults::default() }, 100);
    assert!(times[times.len() - 1] < 5.0, "{times:?}");
}

#[test]
fn everyone_is_served_without_hints() {
    let flaws = Flaws { loses_hints: true, ..Flaws::default() };
    assert_everyone_is_served_with(Faults { flaws, ..Faults::default() });
}

#[test]
fn everyone_else_is_served_when_a_waiter_dies() {
    for (client, step) in [(0, 1), (0, 10), (1, 10), (0, 20), (1, 40)] {
        assert_everyone_is_served_with(Faults { waiter_death: Some((client, step)), ..Faults::default() });
    }
}

#[test]
fn everyone_is_served_despite_forgotten_positions() {
    assert_everyone_is_served_with(Faults { forgotten_positions_permille: 50, ..Faults::default() });
}

#[test]
fn everyone_is_served_despite_lost_messages() {
    assert_everyone_is_served_with(Faults { lost_permille: 100, ..Faults::default() });
}

#[test]
fn everyone_is_served_despite_late_messages() {
    assert_everyone_is_served_with(Faults { late_messages_permille: 100, ..Faults::default() });
}

#[test]
fn everyone_is_served_with_all_faults_at_once() {
    let flaws = Flaws { unreachable_node: Some(2), ..Flaws::default() };
    assert_everyone_is_served_with(Faults {
        flaws,
        lost_permille: 50,
        forgotten_positions_permille: 20,
        late_messages_permille: 50,
        waiter_death: Some((1, 30)),
    });
}
