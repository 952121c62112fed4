//! The setups of the scenarios and of the wider searches.

use quorlock_core::name::OwnerId;
use quorlock_core::request::BreakMode;
use quorlock_core::terms::Mode;

use crate::setup::{Budget, ClientSpec, Expiry, Receiver, Retirement, Setup};

/// A time step beyond the end of every search, so that time passes only to the next timer or expiry.
const NO_TIME_STEPS: u64 = 1_000_000;
const SECOND: i64 = 1_000_000;
const NO_FAULTS: Budget = Budget {
    slow_replies: 0,
    connection_breaks: 0,
    lost_requests: 0,
    crashes: 0,
    snapshots: 0,
    restored_snapshots: 0,
    flushes: 0,
    rollbacks: 0,
    clock_jumps: 0,
    cancellations: 0,
    releases: 0,
};

/// Two clients whose majorities share one node.
fn two_clients_sharing(node: usize) -> Vec<ClientSpec> {
    vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[node, 2])]
}

pub(super) fn two_clients() -> Setup {
    Setup::new(two_clients_sharing(1))
}

pub(super) fn two_slow_replies() -> Setup {
    Setup { budget: Budget { slow_replies: 2, ..NO_FAULTS }, ..Setup::new(two_clients_sharing(1)) }
}

pub(super) fn second_attempt_after_broken_connection() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].acquires = 2;
    Setup {
        budget: Budget { connection_breaks: 1, cancellations: 1, ..NO_FAULTS },
        horizon_millis: 0,
        ..Setup::new(clients)
    }
}

pub(super) fn second_attempt_with_slow_replies() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].acquires = 2;
    Setup {
        budget: Budget { slow_replies: 2, cancellations: 1, ..NO_FAULTS },
        horizon_millis: 0,
        ..Setup::new(clients)
    }
}

/// Clock rates at their limit: the client's rate is nine tenths of the server's rate (0.9 x 1.055555 = 0.95).
pub(super) fn clock_rates_at_limit() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].clock_rate_ppm = -50_000;
    Setup { clock_rate_ppm: 55_555, ..Setup::new(clients) }
}

pub(super) fn server_crash() -> Setup {
    Setup {
        budget: Budget { crashes: 1, ..NO_FAULTS },
        time_step_millis: NO_TIME_STEPS,
        ..Setup::new(two_clients_sharing(0))
    }
}

pub(super) fn crash_with_clock_rates_at_limit() -> Setup {
    let mut clients = two_clients_sharing(0);
    (clients[0].clock_rate_ppm, clients[1].clock_rate_ppm) = (-100_000, 100_000);
    Setup { budget: Budget { crashes: 1, ..NO_FAULTS }, time_step_millis: NO_TIME_STEPS, ..Setup::new(clients) }
}

pub(super) fn crash_and_clock_jump() -> Setup {
    Setup {
        budget: Budget { crashes: 1, clock_jumps: 1, ..NO_FAULTS },
        time_step_millis: 500,
        horizon_millis: 900,
        ..server_crash()
    }
}

pub(super) fn crash_with_frequent_claims() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients.push(ClientSpec { acquires: 0, ..ClientSpec::reaching(&[0]) });
    let setup = Setup { time_step_millis: 550, horizon_millis: 560, has_frequent_claims: true, ..Setup::new(clients) };
    Setup { budget: Budget { crashes: 1, ..NO_FAULTS }, ..setup }
}

pub(super) fn stored_fence_on_one_node() -> Setup {
    let clients = two_clients_sharing(1);
    Setup {
        budget: Budget { releases: 1, ..NO_FAULTS },
        stored_fences: vec![(0, 10)],
        horizon_millis: 0,
        ..Setup::new(clients)
    }
}

pub(super) fn stored_fence_and_higher_proposal() -> Setup {
    let clients =
        vec![ClientSpec::once(), ClientSpec { clock_estimate_ahead_micros: 11, ..ClientSpec::reaching(&[1, 2]) }];
    let budget = Budget { connection_breaks: 1, releases: 1, ..NO_FAULTS };
    Setup {
        budget,
        stored_fences: vec![(0, 10)],
        horizon_millis: 0,
        are_servers_interchangeable: false,
        ..Setup::new(clients)
    }
}

pub(super) fn crash_with_wrong_clock_estimates() -> Setup {
    let mut clients = two_clients_sharing(0);
    (clients[0].clock_estimate_ahead_micros, clients[1].clock_estimate_ahead_micros) = (SECOND * 3 / 10, -2 * SECOND);
    Setup {
        budget: Budget { crashes: 1, ..NO_FAULTS },
        horizon_millis: 1_200,
        time_step_millis: NO_TIME_STEPS,
        ..Setup::new(clients)
    }
}

pub(super) fn restart_with_old_snapshot() -> Setup {
    let stored_fences = vec![(0, -5 * SECOND), (2, -5 * SECOND)];
    let budget = Budget { snapshots: 1, restored_snapshots: 1, ..NO_FAULTS };
    Setup { budget, stored_fences, ..crash_with_wrong_clock_estimates() }
}

/// A single node restarts twice, and is trusted after each restart.
pub fn two_restarts_of_a_trusted_node() -> Setup {
    let spec = ClientSpec { servers: vec![0], ..ClientSpec::reaching(&[0]) };
    let clients = vec![ClientSpec { clock_estimate_ahead_micros: SECOND * 3 / 10, ..spec.clone() }, spec.clone(), spec];
    let setup =
        Setup { servers: 1, checks_only_fences: true, horizon_millis: 10, time_step_millis: 5, ..Setup::new(clients) };
    Setup { budget: Budget { crashes: 2, ..NO_FAULTS }, ..setup }
}

pub(super) fn renewals_with_a_slow_reply() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].renewal_millis = Some(300);
    let setup = Setup {
        node_deadline_millis: 300,
        horizon_millis: 1_350,
        time_step_millis: NO_TIME_STEPS,
        ..Setup::new(clients)
    };
    Setup { budget: Budget { slow_replies: 1, ..NO_FAULTS }, ..setup }
}

pub(super) fn late_renewals() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].renewal_millis = Some(300);
    Setup { time_step_millis: NO_TIME_STEPS, ..Setup::new(clients) }
}

pub(super) fn detached_lease() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].detached_extensions = Some(1);
    Setup { budget: Budget { releases: 1, ..NO_FAULTS }, ..Setup::new(clients) }
}

/// A client detaches its lease and repairs the lease on the nodes that have not granted it. Another client acquires the
/// lock later.
pub fn detached_and_repaired_lease(receiver: Receiver) -> Setup {
    let winner = ClientSpec { detached_extensions: Some(1), repair_receiver: Some(receiver), ..ClientSpec::once() };
    let budget = Budget { releases: 1, ..NO_FAULTS };
    Setup {
        budget,
        time_step_millis: NO_TIME_STEPS,
        are_servers_interchangeable: false,
        ..Setup::new(vec![winner, ClientSpec::reaching(&[1, 2])])
    }
}

pub(super) fn cancellation_or_release() -> Setup {
    let budget = Budget { slow_replies: 1, connection_breaks: 1, cancellations: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, horizon_millis: 0, ..Setup::new(vec![ClientSpec::once()]) }
}

pub(super) fn cancellation_or_release_with_lost_request() -> Setup {
    let setup = cancellation_or_release();
    Setup { budget: Budget { lost_requests: 1, ..setup.budget }, ..setup }
}

pub(super) fn cancellation_or_release_with_send_queue() -> Setup {
    Setup { clients: vec![ClientSpec { has_send_queue: true, ..ClientSpec::once() }], ..cancellation_or_release() }
}

pub(super) fn client_with_one_reachable_node() -> Setup {
    let isolated = ClientSpec { servers: vec![2, 0, 1], ..ClientSpec::reaching(&[0]) };
    Setup { horizon_millis: 0, are_servers_interchangeable: false, ..Setup::new(vec![ClientSpec::once(), isolated]) }
}

pub(super) fn server_with_two_addresses() -> Setup {
    let client_with_two_addresses = ClientSpec { servers: vec![0, 0, 1], ..ClientSpec::reaching(&[0, 1]) };
    Setup {
        are_servers_interchangeable: false,
        ..Setup::new(vec![client_with_two_addresses, ClientSpec::reaching(&[1, 2])])
    }
}

pub(super) fn emptied_server() -> Setup {
    Setup { budget: Budget { flushes: 1, ..NO_FAULTS }, ..Setup::new(two_clients_sharing(0)) }
}

pub(super) fn rolled_back_server() -> Setup {
    Setup { budget: Budget { rollbacks: 1, ..NO_FAULTS }, ..Setup::new(two_clients_sharing(0)) }
}

pub(super) fn plain_locks_and_emptied_server() -> Setup {
    let clients =
        two_clients_sharing(0).into_iter().map(|spec| ClientSpec { uses_plain_locks: true, ..spec }).collect();
    Setup { budget: Budget { flushes: 1, ..NO_FAULTS }, ..Setup::new(clients) }
}

/// A server's clock jumps ahead by more than a ttl, which drops its votes. One of two clients renews, and a reply may
/// be held back.
pub fn votes_dropped_by_clock_jump() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].renewal_millis = Some(500);
    let budget = Budget { slow_replies: 1, clock_jumps: 1, releases: 1, ..NO_FAULTS };
    let setup = Setup {
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 1_010,
        expiry: Expiry::Wall,
        jump_micros: SECOND * 11 / 10,
        ..Setup::new(clients)
    };
    Setup { budget, ..setup }
}

/// A server's clock jumps ahead twice, which drops its votes each time. One of three clients proposes higher fences.
pub fn votes_dropped_by_two_clock_jumps() -> Setup {
    let clients = vec![
        ClientSpec::once(),
        ClientSpec { clock_estimate_ahead_micros: 11, ..ClientSpec::reaching(&[1, 2]) },
        ClientSpec::reaching(&[0, 1]),
    ];
    let budget = Budget { slow_replies: 1, clock_jumps: 2, ..NO_FAULTS };
    let setup = Setup {
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 0,
        expiry: Expiry::Wall,
        jump_micros: SECOND * 11 / 10,
        ..Setup::new(clients)
    };
    Setup { budget, stored_fences: vec![(0, 10)], faulty_servers: vec![1], are_servers_interchangeable: false, ..setup }
}

/// A server's clock jumps ahead, which drops its votes, including votes that it handed to a waiter.
pub fn votes_dropped_by_clock_jump_with_waiter() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter(), ClientSpec::reaching(&[0, 2])];
    let budget = Budget { slow_replies: 1, clock_jumps: 1, releases: 1, ..NO_FAULTS };
    let setup = Setup {
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 0,
        expiry: Expiry::Wall,
        jump_micros: SECOND * 11 / 10,
        ..Setup::new(clients)
    };
    Setup { budget, ..setup }
}

fn reader(id: u128) -> ClientSpec {
    ClientSpec { mode: Mode::Shared { owner: OwnerId::from_bits(id), reenters: true }, ..ClientSpec::reaching(&[0, 1]) }
}

fn owner(id: u128, reachable: &[usize]) -> ClientSpec {
    ClientSpec { mode: Mode::Reentrant { owner: OwnerId::from_bits(id) }, ..ClientSpec::reaching(reachable) }
}

pub(super) fn two_readers_and_a_writer() -> Setup {
    let budget = Budget { releases: 1, ..NO_FAULTS };
    Setup { budget, horizon_millis: 0, ..Setup::new(vec![reader(1), reader(2), ClientSpec::reaching(&[0, 1])]) }
}

/// One reader acquires two read locks, at the same time or one after the other, beside a writer.
pub fn reader_with_two_entries_and_writer() -> Setup {
    let budget = Budget { releases: 2, ..NO_FAULTS };
    Setup { budget, horizon_millis: 0, ..Setup::new(vec![reader(1), reader(1), ClientSpec::reaching(&[0, 1])]) }
}

/// A reader renews, a writer acquires, and the server that both use restarts.
pub fn reader_and_writer_with_restart() -> Setup {
    let clients = vec![ClientSpec { renewal_millis: Some(500), ..reader(1) }, ClientSpec::reaching(&[0, 2])];
    Setup { clients, ..renewing_holder_with_restart() }
}

/// An owner renews, another owner acquires, and the server that both use restarts.
pub fn two_owners_with_restart() -> Setup {
    let clients = vec![ClientSpec { renewal_millis: Some(500), ..owner(1, &[0, 1]) }, owner(2, &[0, 2])];
    Setup { clients, ..renewing_holder_with_restart() }
}

/// Two readers and a writer use one server, which restarts. No time passes.
pub fn two_readers_and_writer_with_restart() -> Setup {
    instant_restart(vec![reader(1), reader(2), ClientSpec::reaching(&[0, 2])])
}

/// An owner that enters twice and another owner use one server, which restarts. No time passes.
pub fn owner_with_two_entries_and_restart() -> Setup {
    instant_restart(vec![owner(1, &[0, 1]), owner(1, &[0, 1]), owner(2, &[0, 2])])
}

/// Two clients acquire two slots on one server, which restarts. No time passes.
pub fn two_slots_with_restart() -> Setup {
    let spec = |reachable: &[usize]| ClientSpec {
        mode: Mode::Slot { permits: 2, slot: 0 },
        ..ClientSpec::reaching(reachable)
    };
    instant_restart(vec![spec(&[0, 1]), spec(&[0, 2])])
}

/// A server restarts, and a holder may release. No time passes.
fn instant_restart(clients: Vec<ClientSpec>) -> Setup {
    let budget = Budget { crashes: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 0, ..Setup::new(clients) }
}

/// A client that reaches the first two nodes and waits in their queues.
fn waiter() -> ClientSpec {
    ClientSpec { is_waiter: true, ..ClientSpec::reaching(&[0, 1]) }
}

/// On a single node, a holder releases to a waiter and acquires again.
pub(super) fn handoff_on_one_node() -> Setup {
    let spec = ClientSpec { servers: vec![0], ..ClientSpec::reaching(&[0]) };
    let clients = vec![ClientSpec { acquires: 2, ..spec.clone() }, ClientSpec { is_waiter: true, ..spec }];
    Setup {
        servers: 1,
        budget: Budget { releases: 1, ..NO_FAULTS },
        time_step_millis: 240,
        are_servers_interchangeable: false,
        ..Setup::new(clients)
    }
}

pub(super) fn handoff_with_faults() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter()];
    let budget = Budget { slow_replies: 1, connection_breaks: 1, cancellations: 1, releases: 2, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 300, ..Setup::new(clients) }
}

pub(super) fn holder_and_two_waiters() -> Setup {
    let second_waiter = ClientSpec { is_waiter: true, ..ClientSpec::reaching(&[0, 2]) };
    let budget = Budget { cancellations: 1, releases: 1, ..NO_FAULTS };
    Setup {
        budget,
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 300,
        ..Setup::new(vec![ClientSpec::reaching(&[0, 1]), waiter(), second_waiter])
    }
}

pub(super) fn waiter_and_restart_with_snapshot() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter()];
    let budget = Budget { snapshots: 1, restored_snapshots: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 1_210, ..Setup::new(clients) }
}

/// An operator that breaks a lease on the first two nodes.
fn operator(mode: BreakMode) -> ClientSpec {
    ClientSpec { reachable: vec![0, 1], ..ClientSpec::breaking(mode) }
}

/// An operator breaks the holder's lease, while another client wants the lock.
fn break_with_two_clients(mode: BreakMode) -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), ClientSpec::reaching(&[0, 1]), ClientSpec::breaking(mode)];
    Setup { time_step_millis: NO_TIME_STEPS, horizon_millis: 1_010, ..Setup::new(clients) }
}

/// After the break, the name stays locked until the ttl of the broken lease is over.
pub(super) fn break_with_drain() -> Setup {
    break_with_two_clients(BreakMode::Drain)
}

/// An operator breaks the lease at once, without drain, while the holder renews.
pub(super) fn break_now_of_renewing_holder() -> Setup {
    let mut holder = ClientSpec::reaching(&[0, 1]);
    holder.renewal_millis = Some(500);
    let clients = vec![holder, operator(BreakMode::Now)];
    let setup = Setup {
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 1_600,
        checks_only_fences: true,
        ..Setup::new(clients)
    };
    Setup { budget: Budget { slow_replies: 1, ..NO_FAULTS }, ..setup }
}

/// The holder may release before the break arrives, and another client may acquire the lock.
pub(super) fn break_after_release() -> Setup {
    Setup { budget: Budget { releases: 1, ..NO_FAULTS }, horizon_millis: 0, ..break_with_two_clients(BreakMode::Drain) }
}

/// The holder may learn of the break during a renewal, or before all nodes have executed the break.
pub(super) fn break_during_renewal() -> Setup {
    let clients = vec![ClientSpec::once(), ClientSpec::breaking(BreakMode::Drain)];
    let setup = Setup { time_step_millis: NO_TIME_STEPS, horizon_millis: 0, ..Setup::new(clients) };
    Setup { budget: Budget { slow_replies: 1, ..NO_FAULTS }, ..setup }
}

/// An operator breaks the lease while the holder renews, and a connection may break.
pub(super) fn break_with_faults() -> Setup {
    let mut clients = vec![ClientSpec::reaching(&[0, 1]), operator(BreakMode::Drain)];
    clients[0].renewal_millis = Some(500);
    let budget = Budget { slow_replies: 1, connection_breaks: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 1_510, ..Setup::new(clients) }
}

/// An operator breaks the lease at once, without drain, while a client waits for the lock.
pub(super) fn break_now_with_waiter() -> Setup {
    let clients = vec![ClientSpec::reaching(&[0, 1]), waiter(), operator(BreakMode::Now)];
    let budget = Budget { slow_replies: 1, releases: 1, ..NO_FAULTS };
    Setup {
        budget,
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 300,
        checks_only_fences: true,
        ..Setup::new(clients)
    }
}

/// An operator that reaches the nodes of the first owner, and retires this owner from the searched name or, if
/// `is_other_name`, from another name.
fn retiring_operator(is_other_name: bool) -> ClientSpec {
    ClientSpec {
        reachable: vec![0, 1],
        ..ClientSpec::retiring(Retirement { owner: OwnerId::from_bits(1), is_other_name })
    }
}

/// An owner that renews is retired. A connection may break, and messages in flight on that connection may be late.
pub(super) fn retired_owner() -> Setup {
    let clients = vec![ClientSpec { renewal_millis: Some(500), ..owner(1, &[0, 1]) }, retiring_operator(false)];
    Setup {
        budget: Budget { connection_breaks: 1, ..NO_FAULTS },
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 1_510,
        ..Setup::new(clients)
    }
}

/// An owner that renews is retired, a second owner acquires the lock, and a reply may be late.
pub(super) fn retired_owner_and_second_owner() -> Setup {
    let clients = vec![
        ClientSpec { renewal_millis: Some(500), ..owner(1, &[0, 1]) },
        owner(2, &[0, 1]),
        retiring_operator(false),
    ];
    Setup { clients, budget: Budget { slow_replies: 1, ..NO_FAULTS }, ..retired_owner() }
}

/// The first owner holds the searched name and is retired from another name. A second owner must not get the searched
/// name.
pub(super) fn owner_retired_from_another_name() -> Setup {
    let clients = vec![owner(1, &[0, 1]), owner(2, &[0, 1]), retiring_operator(true)];
    Setup {
        budget: Budget { slow_replies: 1, ..NO_FAULTS },
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 0,
        ..Setup::new(clients)
    }
}

pub(super) fn two_clients_on_all_nodes() -> Setup {
    let setup = Setup {
        time_step_millis: NO_TIME_STEPS,
        horizon_millis: 1_010,
        ..Setup::new(vec![ClientSpec::once(), ClientSpec::once()])
    };
    Setup { budget: Budget { slow_replies: 1, releases: 1, ..NO_FAULTS }, ..setup }
}

pub(super) fn renewing_holder_with_restart() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].renewal_millis = Some(500);
    let budget = Budget { crashes: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 1_110, ..Setup::new(clients) }
}

pub(super) fn crash_and_emptied_server() -> Setup {
    let budget = Budget { crashes: 1, flushes: 1, ..NO_FAULTS };
    Setup { budget, ..crash_with_clock_rates_at_limit() }
}

pub(super) fn two_attempts_with_faults() -> Setup {
    let mut clients = two_clients_sharing(0);
    clients[0].acquires = 2;
    let budget = Budget { slow_replies: 1, connection_breaks: 1, cancellations: 1, releases: 1, ..NO_FAULTS };
    Setup { budget, time_step_millis: NO_TIME_STEPS, horizon_millis: 0, ..Setup::new(clients) }
}
