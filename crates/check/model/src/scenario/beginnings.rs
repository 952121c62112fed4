//! Where the searches begin.

use quorlock_core::mode::{Mode, OwnerId};
use quorlock_core::vote::BreakMode;

use crate::setup::{Budget, ClientSpec, Expiry, Heir, Retirement, Setup};

/// Time passes to moments at which something is due, and to no others.
const NO_GRID: u64 = 1_000_000;
const SECOND: i64 = 1_000_000;
const NONE: Budget = Budget {
    slow: 0,
    breaks: 0,
    losses: 0,
    crashes: 0,
    saves: 0,
    restores: 0,
    flushes: 0,
    rollbacks: 0,
    jumps: 0,
    cancels: 0,
    frees: 0,
};

/// Two clients who meet on one node.
fn two_meeting_at(node: usize) -> Vec<ClientSpec> {
    vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[node, 2])]
}

pub(super) fn plainly_two() -> Setup {
    Setup::new(two_meeting_at(1))
}

pub(super) fn slow_answers() -> Setup {
    Setup { budget: Budget { slow: 2, ..NONE }, ..Setup::new(two_meeting_at(1)) }
}

pub(super) fn second_try_over_a_broken_connection() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    Setup { budget: Budget { breaks: 1, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(clients) }
}

pub(super) fn second_try_with_slow_answers() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    Setup { budget: Budget { slow: 2, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(clients) }
}

/// Nine tenths of what the fastest server counts are what the slowest client counts: 0.9 x 1.055555 = 0.95.
pub(super) fn rates_at_their_limit() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].ppm = -50_000;
    Setup { ppm: 55_555, ..Setup::new(clients) }
}

pub(super) fn crash() -> Setup {
    Setup { budget: Budget { crashes: 1, ..NONE }, grid: NO_GRID, ..Setup::new(two_meeting_at(0)) }
}

pub(super) fn crash_between_clocks_at_their_limit() -> Setup {
    let mut clients = two_meeting_at(0);
    (clients[0].ppm, clients[1].ppm) = (-100_000, 100_000);
    Setup { budget: Budget { crashes: 1, ..NONE }, grid: NO_GRID, ..Setup::new(clients) }
}

pub(super) fn crash_and_jump() -> Setup {
    Setup { budget: Budget { crashes: 1, jumps: 1, ..NONE }, grid: 500, horizon: 900, ..crash() }
}

pub(super) fn two_claimants() -> Setup {
    let mut clients = two_meeting_at(0);
    clients.push(ClientSpec { starts: 0, ..ClientSpec::reaching(&[0]) });
    let setup = Setup { grid: 550, horizon: 560, claims_often: true, ..Setup::new(clients) };
    Setup { budget: Budget { crashes: 1, ..NONE }, ..setup }
}

pub(super) fn one_node_ahead() -> Setup {
    let clients = two_meeting_at(1);
    Setup { budget: Budget { frees: 1, ..NONE }, fences: vec![(0, 10)], horizon: 0, ..Setup::new(clients) }
}

pub(super) fn one_node_ahead_and_two_rivals() -> Setup {
    let clients = vec![ClientSpec::once(), ClientSpec { ahead: 11, ..ClientSpec::reaching(&[1, 2]) }];
    let budget = Budget { breaks: 1, frees: 1, ..NONE };
    Setup { budget, fences: vec![(0, 10)], horizon: 0, alike: false, ..Setup::new(clients) }
}

pub(super) fn crash_with_clients_off_the_clock() -> Setup {
    let mut clients = two_meeting_at(0);
    (clients[0].ahead, clients[1].ahead) = (SECOND * 3 / 10, -2 * SECOND);
    Setup { budget: Budget { crashes: 1, ..NONE }, horizon: 1_200, grid: NO_GRID, ..Setup::new(clients) }
}

pub(super) fn old_snapshot() -> Setup {
    let fences = vec![(0, -5 * SECOND), (2, -5 * SECOND)];
    let budget = Budget { saves: 1, restores: 1, ..NONE };
    Setup { budget, fences, ..crash_with_clients_off_the_clock() }
}

/// A single node that is trusted after each of two restarts.
pub fn one_trusted_node() -> Setup {
    let spec = ClientSpec { servers: vec![0], ..ClientSpec::reaching(&[0]) };
    let clients = vec![ClientSpec { ahead: SECOND * 3 / 10, ..spec.clone() }, spec.clone(), spec];
    let setup = Setup { servers: 1, only_fences: true, horizon: 10, grid: 5, ..Setup::new(clients) };
    Setup { budget: Budget { crashes: 2, ..NONE }, ..setup }
}

pub(super) fn renewals_with_slow_answers() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(300);
    let setup = Setup { node_deadline: 300, horizon: 1_350, grid: NO_GRID, ..Setup::new(clients) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

pub(super) fn renewals_late() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(300);
    Setup { grid: NO_GRID, ..Setup::new(clients) }
}

pub(super) fn detached() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].hands_over = Some(1);
    Setup { budget: Budget { frees: 1, ..NONE }, ..Setup::new(clients) }
}

/// One who hands its lease over and gives it to the node that has not granted it, and one who comes after it.
pub fn detached_and_repaired(heir: Heir) -> Setup {
    let winner = ClientSpec { hands_over: Some(1), mends_for: Some(heir), ..ClientSpec::once() };
    let budget = Budget { frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, alike: false, ..Setup::new(vec![winner, ClientSpec::reaching(&[1, 2])]) }
}

pub(super) fn one_who_turns_away() -> Setup {
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 1, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![ClientSpec::once()]) }
}

pub(super) fn one_whose_release_is_lost() -> Setup {
    let setup = one_who_turns_away();
    Setup { budget: Budget { losses: 1, ..setup.budget }, ..setup }
}

pub(super) fn one_who_turns_away_while_requests_wait() -> Setup {
    Setup { clients: vec![ClientSpec { queues: true, ..ClientSpec::once() }], ..one_who_turns_away() }
}

pub(super) fn cut_off() -> Setup {
    let cut_off = ClientSpec { servers: vec![2, 0, 1], ..ClientSpec::reaching(&[0]) };
    Setup { horizon: 0, alike: false, ..Setup::new(vec![ClientSpec::once(), cut_off]) }
}

pub(super) fn two_addresses() -> Setup {
    let confused = ClientSpec { servers: vec![0, 0, 1], ..ClientSpec::reaching(&[0, 1]) };
    Setup { alike: false, ..Setup::new(vec![confused, ClientSpec::reaching(&[1, 2])]) }
}

pub(super) fn flushed() -> Setup {
    Setup { budget: Budget { flushes: 1, ..NONE }, ..Setup::new(two_meeting_at(0)) }
}

pub(super) fn rolled_back() -> Setup {
    Setup { budget: Budget { rollbacks: 1, ..NONE }, ..Setup::new(two_meeting_at(0)) }
}

pub(super) fn plain_and_flushed() -> Setup {
    let clients = two_meeting_at(0).into_iter().map(|spec| ClientSpec { plain: true, ..spec }).collect();
    Setup { budget: Budget { flushes: 1, ..NONE }, ..Setup::new(clients) }
}

/// A server's clock jumps ahead by more than a ttl, and its votes are gone: one who renews, one who comes meanwhile, and an answer
/// that is held back.
pub fn votes_that_vanish() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(500);
    let budget = Budget { slow: 1, jumps: 1, frees: 1, ..NONE };
    let setup =
        Setup { grid: NO_GRID, horizon: 1_010, expiry: Expiry::Wall, jump: SECOND * 11 / 10, ..Setup::new(clients) };
    Setup { budget, ..setup }
}

/// The same server's votes are gone twice, between three clients: one of the others is ahead with its fences.
pub fn votes_that_vanish_twice() -> Setup {
    let clients = vec![
        ClientSpec::once(),
        ClientSpec { ahead: 11, ..ClientSpec::reaching(&[1, 2]) },
        ClientSpec::reaching(&[0, 1]),
    ];
    let budget = Budget { slow: 1, jumps: 2, ..NONE };
    let setup =
        Setup { grid: NO_GRID, horizon: 0, expiry: Expiry::Wall, jump: SECOND * 11 / 10, ..Setup::new(clients) };
    Setup { budget, fences: vec![(0, 10)], fragile: vec![1], alike: false, ..setup }
}

/// Votes of a server that others wait for are gone, and are handed on.
pub fn votes_that_vanish_before_a_waiter() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter(), ClientSpec::reaching(&[0, 2])];
    let budget = Budget { slow: 1, jumps: 1, frees: 1, ..NONE };
    let setup =
        Setup { grid: NO_GRID, horizon: 0, expiry: Expiry::Wall, jump: SECOND * 11 / 10, ..Setup::new(clients) };
    Setup { budget, ..setup }
}

fn reader(id: u128) -> ClientSpec {
    ClientSpec { mode: Mode::Shared { owner: OwnerId::from_bits(id), reenters: true }, ..ClientSpec::reaching(&[0, 1]) }
}

fn owner(id: u128, reaches: &[usize]) -> ClientSpec {
    ClientSpec { mode: Mode::Reentrant { owner: OwnerId::from_bits(id) }, ..ClientSpec::reaching(reaches) }
}

pub(super) fn two_readers_and_a_writer() -> Setup {
    let budget = Budget { frees: 1, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![reader(1), reader(2), ClientSpec::reaching(&[0, 1])]) }
}

/// One spec that reads twice, at the same time or one after the other, and a writer.
pub fn a_reader_who_reads_again_and_a_writer() -> Setup {
    let budget = Budget { frees: 2, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![reader(1), reader(1), ClientSpec::reaching(&[0, 1])]) }
}

/// One who reads and renews, one who writes, and a server that restarts between them.
pub fn a_reader_a_writer_and_a_restart() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..reader(1) }, ClientSpec::reaching(&[0, 2])];
    Setup { clients, ..restless_holder() }
}

/// An owner who renews, another, and a server that restarts between them.
pub fn two_owners_and_a_restart() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, owner(2, &[0, 2])];
    Setup { clients, ..restless_holder() }
}

/// The server between two who read and one who writes restarts, while no time passes.
pub fn two_readers_a_writer_and_a_restart() -> Setup {
    at_once(vec![reader(1), reader(2), ClientSpec::reaching(&[0, 2])])
}

/// The server between an owner who enters twice and another restarts, while no time passes.
pub fn an_owner_who_enters_twice_and_a_restart() -> Setup {
    at_once(vec![owner(1, &[0, 1]), owner(1, &[0, 1]), owner(2, &[0, 2])])
}

/// The server between two who want one of two slots restarts, while no time passes.
pub fn two_for_two_slots_and_a_restart() -> Setup {
    let spec =
        |reaches: &[usize]| ClientSpec { mode: Mode::Slot { permits: 2, slot: 0 }, ..ClientSpec::reaching(reaches) };
    at_once(vec![spec(&[0, 1]), spec(&[0, 2])])
}

fn at_once(clients: Vec<ClientSpec>) -> Setup {
    let budget = Budget { crashes: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}

/// One who waits on two nodes.
fn waiter() -> ClientSpec {
    ClientSpec { waits: true, ..ClientSpec::reaching(&[0, 1]) }
}

/// One who holds, one who waits for it, and the first again: on a single node.
pub(super) fn handed_on() -> Setup {
    let spec = ClientSpec { servers: vec![0], ..ClientSpec::reaching(&[0]) };
    let clients = vec![ClientSpec { starts: 2, ..spec.clone() }, ClientSpec { waits: true, ..spec }];
    Setup { servers: 1, budget: Budget { frees: 1, ..NONE }, grid: 240, alike: false, ..Setup::new(clients) }
}

pub(super) fn handed_on_with_mishaps() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter()];
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 2, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 300, ..Setup::new(clients) }
}

pub(super) fn two_who_wait() -> Setup {
    let other = ClientSpec { waits: true, ..ClientSpec::reaching(&[0, 2]) };
    let budget = Budget { cancels: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 300, ..Setup::new(vec![ClientSpec::reaching(&[0, 1]), waiter(), other]) }
}

pub(super) fn waiting_through_a_restart() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter()];
    let budget = Budget { saves: 1, restores: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 1_210, ..Setup::new(clients) }
}

/// An operator who breaks a lease of others, where they are.
fn operator(mode: BreakMode) -> ClientSpec {
    ClientSpec { reaches: vec![0, 1], ..ClientSpec::breaking(mode) }
}

/// One who holds, one who asks, and an operator who breaks the lease.
fn broken(mode: BreakMode) -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[0, 1]), ClientSpec::breaking(mode)];
    Setup { grid: NO_GRID, horizon: 1_010, ..Setup::new(clients) }
}

pub(super) fn broken_to_drain() -> Setup {
    broken(BreakMode::Drain)
}

/// The holder renews, and would come back.
pub(super) fn broken_at_once() -> Setup {
    let mut holder = ClientSpec::reaching(&[0, 1]);
    holder.renews = Some(500);
    let clients = vec![holder, operator(BreakMode::Now)];
    let setup = Setup { grid: NO_GRID, horizon: 1_600, only_fences: true, ..Setup::new(clients) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

/// The lease that is meant is given back, and another begins, before the break arrives.
pub(super) fn broken_too_late() -> Setup {
    Setup { budget: Budget { frees: 1, ..NONE }, horizon: 0, ..broken(BreakMode::Drain) }
}

/// The holder learns of it while it renews, or while others are still to be broken.
pub(super) fn broken_while_renewing() -> Setup {
    let clients = vec![ClientSpec::once(), ClientSpec::breaking(BreakMode::Drain)];
    let setup = Setup { grid: NO_GRID, horizon: 0, ..Setup::new(clients) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

/// The holder renews, and a connection may break with everything on it.
pub(super) fn broken_with_mishaps() -> Setup {
    let mut clients = vec![ClientSpec::reaching(&[0, 1]), operator(BreakMode::Drain)];
    clients[0].renews = Some(500);
    let budget = Budget { slow: 1, breaks: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 1_510, ..Setup::new(clients) }
}

/// Freed at once, with somebody who waits for it.
pub(super) fn broken_at_once_for_a_waiter() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter(), operator(BreakMode::Now)];
    let budget = Budget { slow: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 300, only_fences: true, ..Setup::new(clients) }
}

/// An operator who retires the first owner, where it is.
fn retiring(elsewhere: bool) -> ClientSpec {
    ClientSpec { reaches: vec![0, 1], ..ClientSpec::retiring(Retirement { owner: OwnerId::from_bits(1), elsewhere }) }
}

/// An owner who renews and is retired. A connection may break, and what is under way on it may be late.
pub(super) fn retired() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, retiring(false)];
    Setup { budget: Budget { breaks: 1, ..NONE }, grid: NO_GRID, horizon: 1_510, ..Setup::new(clients) }
}

/// The same with another owner, who comes after it, and with an answer that may be late.
pub(super) fn retired_for_another() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, owner(2, &[0, 1]), retiring(false)];
    Setup { clients, budget: Budget { slow: 1, ..NONE }, ..retired() }
}

/// An owner who is retired from another name, and a second owner who wants this one.
pub(super) fn retired_elsewhere() -> Setup {
    let clients = vec![owner(1, &[0, 1]), owner(2, &[0, 1]), retiring(true)];
    Setup { budget: Budget { slow: 1, ..NONE }, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}

pub(super) fn two_everywhere() -> Setup {
    let setup = Setup { grid: NO_GRID, horizon: 1_010, ..Setup::new(vec![ClientSpec::once(), ClientSpec::once()]) };
    Setup { budget: Budget { slow: 1, frees: 1, ..NONE }, ..setup }
}

pub(super) fn restless_holder() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(500);
    let budget = Budget { crashes: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 1_110, ..Setup::new(clients) }
}

pub(super) fn two_losses() -> Setup {
    let budget = Budget { crashes: 1, flushes: 1, ..NONE };
    Setup { budget, ..crash_between_clocks_at_their_limit() }
}

pub(super) fn coming_back() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}
