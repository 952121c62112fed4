//! The setups of the searches.

use quorlock_core::name::OwnerId;
use quorlock_core::request::BreakMode;
use quorlock_core::terms::Mode;

use crate::setup::{Budget, ClientSpec, Expiry, Receiver, Retirement, Setup};

/// Time passes only to moments at which something is due.
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

/// Two clients whose majorities share one node.
fn two_meeting_at(node: usize) -> Vec<ClientSpec> {
    vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[node, 2])]
}

pub(super) fn two_clients() -> Setup {
    Setup::new(two_meeting_at(1))
}

pub(super) fn slow_replies() -> Setup {
    Setup { budget: Budget { slow: 2, ..NONE }, ..Setup::new(two_meeting_at(1)) }
}

pub(super) fn second_attempt_over_a_broken_connection() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    Setup { budget: Budget { breaks: 1, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(clients) }
}

pub(super) fn second_attempt_with_slow_replies() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    Setup { budget: Budget { slow: 2, cancels: 1, ..NONE }, horizon: 0, ..Setup::new(clients) }
}

/// Nine tenths of the fastest server's rate equal the slowest client's rate: 0.9 x 1.055555 = 0.95.
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

pub(super) fn renewals_with_slow_replies() -> Setup {
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

/// A client that detaches its lease and repairs it on the node that has not granted it, and a later client.
pub fn detached_and_repaired(receiver: Receiver) -> Setup {
    let winner = ClientSpec { hands_over: Some(1), mends_for: Some(receiver), ..ClientSpec::once() };
    let budget = Budget { frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, alike: false, ..Setup::new(vec![winner, ClientSpec::reaching(&[1, 2])]) }
}

pub(super) fn cancellation_or_release() -> Setup {
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 1, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![ClientSpec::once()]) }
}

pub(super) fn lost_release() -> Setup {
    let setup = cancellation_or_release();
    Setup { budget: Budget { losses: 1, ..setup.budget }, ..setup }
}

pub(super) fn cancellation_while_requests_are_queued() -> Setup {
    Setup { clients: vec![ClientSpec { queues: true, ..ClientSpec::once() }], ..cancellation_or_release() }
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

/// A server's clock jumps ahead by more than a ttl, and its votes vanish: a client that renews, another one, and a
/// reply that is held back.
pub fn votes_that_vanish() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(500);
    let budget = Budget { slow: 1, jumps: 1, frees: 1, ..NONE };
    let setup =
        Setup { grid: NO_GRID, horizon: 1_010, expiry: Expiry::Wall, jump: SECOND * 11 / 10, ..Setup::new(clients) };
    Setup { budget, ..setup }
}

/// The same server's votes vanish twice, among three clients; another client proposes higher fences.
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

/// The votes of a server with waiters vanish, and are handed over.
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

/// A client that reads twice, at the same time or one after the other, and a writer.
pub fn a_reader_who_reads_again_and_a_writer() -> Setup {
    let budget = Budget { frees: 2, ..NONE };
    Setup { budget, horizon: 0, ..Setup::new(vec![reader(1), reader(1), ClientSpec::reaching(&[0, 1])]) }
}

/// A reader that renews, a writer, and a server that restarts between them.
pub fn a_reader_a_writer_and_a_restart() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..reader(1) }, ClientSpec::reaching(&[0, 2])];
    Setup { clients, ..renewing_holder() }
}

/// An owner that renews, another owner, and a server that restarts between them.
pub fn two_owners_and_a_restart() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, owner(2, &[0, 2])];
    Setup { clients, ..renewing_holder() }
}

/// The server shared by two readers and a writer restarts, without time passing.
pub fn two_readers_a_writer_and_a_restart() -> Setup {
    at_once(vec![reader(1), reader(2), ClientSpec::reaching(&[0, 2])])
}

/// The server shared by an owner that enters twice and another owner restarts, without time passing.
pub fn an_owner_who_enters_twice_and_a_restart() -> Setup {
    at_once(vec![owner(1, &[0, 1]), owner(1, &[0, 1]), owner(2, &[0, 2])])
}

/// The server shared by two clients for two slots restarts, without time passing.
pub fn two_for_two_slots_and_a_restart() -> Setup {
    let spec =
        |reaches: &[usize]| ClientSpec { mode: Mode::Slot { permits: 2, slot: 0 }, ..ClientSpec::reaching(reaches) };
    at_once(vec![spec(&[0, 1]), spec(&[0, 2])])
}

fn at_once(clients: Vec<ClientSpec>) -> Setup {
    let budget = Budget { crashes: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}

/// A waiter on two nodes.
fn waiter() -> ClientSpec {
    ClientSpec { waits: true, ..ClientSpec::reaching(&[0, 1]) }
}

/// A holder, a waiter, and the holder again, on a single node.
pub(super) fn handoff_on_one_node() -> Setup {
    let spec = ClientSpec { servers: vec![0], ..ClientSpec::reaching(&[0]) };
    let clients = vec![ClientSpec { starts: 2, ..spec.clone() }, ClientSpec { waits: true, ..spec }];
    Setup { servers: 1, budget: Budget { frees: 1, ..NONE }, grid: 240, alike: false, ..Setup::new(clients) }
}

pub(super) fn handoff_with_faults() -> Setup {
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

/// An operator that breaks a lease on the nodes of the other clients.
fn operator(mode: BreakMode) -> ClientSpec {
    ClientSpec { reaches: vec![0, 1], ..ClientSpec::breaking(mode) }
}

/// A holder, another client, and an operator that breaks the lease.
fn broken(mode: BreakMode) -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[0, 1]), ClientSpec::breaking(mode)];
    Setup { grid: NO_GRID, horizon: 1_010, ..Setup::new(clients) }
}

pub(super) fn broken_to_drain() -> Setup {
    broken(BreakMode::Drain)
}

/// The holder renews, and could return.
pub(super) fn broken_at_once() -> Setup {
    let mut holder = ClientSpec::reaching(&[0, 1]);
    holder.renews = Some(500);
    let clients = vec![holder, operator(BreakMode::Now)];
    let setup = Setup { grid: NO_GRID, horizon: 1_600, only_fences: true, ..Setup::new(clients) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

/// The targeted lease is released, and another begins, before the break arrives.
pub(super) fn broken_too_late() -> Setup {
    Setup { budget: Budget { frees: 1, ..NONE }, horizon: 0, ..broken(BreakMode::Drain) }
}

/// The holder learns of the break during a renewal, or before all nodes have executed it.
pub(super) fn broken_while_renewing() -> Setup {
    let clients = vec![ClientSpec::once(), ClientSpec::breaking(BreakMode::Drain)];
    let setup = Setup { grid: NO_GRID, horizon: 0, ..Setup::new(clients) };
    Setup { budget: Budget { slow: 1, ..NONE }, ..setup }
}

/// The holder renews, and a connection may break.
pub(super) fn broken_with_faults() -> Setup {
    let mut clients = vec![ClientSpec::reaching(&[0, 1]), operator(BreakMode::Drain)];
    clients[0].renews = Some(500);
    let budget = Budget { slow: 1, breaks: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 1_510, ..Setup::new(clients) }
}

/// Freed at once, with a waiter.
pub(super) fn broken_at_once_for_a_waiter() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter(), operator(BreakMode::Now)];
    let budget = Budget { slow: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 300, only_fences: true, ..Setup::new(clients) }
}

/// An operator that retires the first owner, on the owner's nodes.
fn retiring(elsewhere: bool) -> ClientSpec {
    ClientSpec { reaches: vec![0, 1], ..ClientSpec::retiring(Retirement { owner: OwnerId::from_bits(1), elsewhere }) }
}

/// An owner that renews and is retired. A connection may break, and its messages may be late.
pub(super) fn retired() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, retiring(false)];
    Setup { budget: Budget { breaks: 1, ..NONE }, grid: NO_GRID, horizon: 1_510, ..Setup::new(clients) }
}

/// The same, with a second owner after it, and a reply that may be late.
pub(super) fn retired_for_another() -> Setup {
    let clients = vec![ClientSpec { renews: Some(500), ..owner(1, &[0, 1]) }, owner(2, &[0, 1]), retiring(false)];
    Setup { clients, budget: Budget { slow: 1, ..NONE }, ..retired() }
}

/// An owner that is retired from another name, and a second owner that wants this one.
pub(super) fn retired_elsewhere() -> Setup {
    let clients = vec![owner(1, &[0, 1]), owner(2, &[0, 1]), retiring(true)];
    Setup { budget: Budget { slow: 1, ..NONE }, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}

pub(super) fn two_everywhere() -> Setup {
    let setup = Setup { grid: NO_GRID, horizon: 1_010, ..Setup::new(vec![ClientSpec::once(), ClientSpec::once()]) };
    Setup { budget: Budget { slow: 1, frees: 1, ..NONE }, ..setup }
}

pub(super) fn renewing_holder() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].renews = Some(500);
    let budget = Budget { crashes: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 1_110, ..Setup::new(clients) }
}

pub(super) fn two_losses() -> Setup {
    let budget = Budget { crashes: 1, flushes: 1, ..NONE };
    Setup { budget, ..crash_between_clocks_at_their_limit() }
}

pub(super) fn two_attempts_with_faults() -> Setup {
    let mut clients = two_meeting_at(0);
    clients[0].starts = 2;
    let budget = Budget { slow: 1, breaks: 1, cancels: 1, frees: 1, ..NONE };
    Setup { budget, grid: NO_GRID, horizon: 0, ..Setup::new(clients) }
}
