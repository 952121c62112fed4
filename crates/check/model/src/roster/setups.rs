//! The setups of the searches.

use super::setup::{Budget, ClientSpec, MembershipChange, Setup};

fn base() -> Setup {
    Setup {
        servers: 3,
        members: vec![0, 1, 2],
        members_without_memory: Vec::new(),
        faulty_servers: Vec::new(),
        clients: Vec::new(),
        budget: Budget { crashes: 0, restarts: 0, time_steps: 1, votes_requested: 4 },
        last_generation: 3,
        time_steps_per_ttl: 1,
        renews: false,
        promises_in_one_step: true,
        trusts_restarts: false,
        flaw: None,
    }
}

fn faults(crashes: u8, time_steps: u8, votes_requested: u8) -> Budget {
    Budget { crashes, restarts: 0, time_steps, votes_requested }
}

fn client(servers: &[usize]) -> ClientSpec {
    ClientSpec::new(servers.iter().copied())
}

fn proposing(servers: &[usize], proposals: u8) -> ClientSpec {
    ClientSpec { proposals, ..client(servers) }
}

fn operator(servers: &[usize], membership_changes: Vec<MembershipChange>) -> ClientSpec {
    ClientSpec { membership_changes, ..client(servers) }
}

fn replace(old: usize, new: usize) -> MembershipChange {
    MembershipChange { add: vec![new], remove: vec![old] }
}

fn add(new: &[usize]) -> MembershipChange {
    MembershipChange { add: new.to_vec(), remove: Vec::new() }
}

fn remove(old: &[usize]) -> MembershipChange {
    MembershipChange { add: Vec::new(), remove: old.to_vec() }
}

/// Two clients have different lists of three servers each, and a server loses its memory.
pub(super) fn two_lists_and_restart() -> Setup {
    Setup {
        servers: 4,
        faulty_servers: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 3], 1)],
        budget: faults(1, 2, 4),
        ..base()
    }
}

/// An operator replaces a server, and another client finishes the replacement.
pub(super) fn server_replaced() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), proposing(&[0, 1, 3], 1)],
        budget: faults(0, 1, 4),
        ..base()
    }
}

/// Two clients reach different servers at the same address.
pub(super) fn two_servers_behind_one_address() -> Setup {
    let other = ClientSpec { list: vec![(0, 0), (1, 1), (2, 3)], ..proposing(&[], 1) };
    Setup { servers: 4, clients: vec![proposing(&[0, 1, 2], 1), other], budget: faults(0, 1, 4), ..base() }
}

/// Two addresses of a client's list lead to one server, and that server may lose its memory.
pub(super) fn two_addresses_of_one_server() -> Setup {
    let other = ClientSpec { list: vec![(0, 0), (1, 1), (2, 1)], ..proposing(&[], 1) };
    Setup {
        faulty_servers: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), other],
        budget: faults(1, 1, 4),
        last_generation: 2,
        ..base()
    }
}

/// Two operators replace two servers at the same time.
pub(super) fn two_operators() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), operator(&[0, 1, 2, 3], vec![replace(1, 3)])],
        budget: faults(0, 1, 4),
        promises_in_one_step: false,
        ..base()
    }
}

/// A server has lost its memory, and then another server loses its memory.
pub(super) fn second_server_loses_memory() -> Setup {
    Setup {
        members_without_memory: vec![1],
        faulty_servers: vec![2],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 2], 1)],
        budget: faults(1, 1, 4),
        ..base()
    }
}

/// One server becomes three.
pub(super) fn one_to_three() -> Setup {
    Setup {
        members: vec![0],
        clients: vec![operator(&[0, 1, 2], vec![add(&[1, 2])]), operator(&[0, 1, 2], vec![add(&[1, 2])])],
        budget: faults(0, 2, 4),
        last_generation: 2,
        ..base()
    }
}

/// Three servers become one.
pub(super) fn three_to_one() -> Setup {
    Setup {
        clients: vec![operator(&[0, 1, 2], vec![remove(&[0, 1])]), client(&[0, 1, 2])],
        budget: faults(0, 2, 4),
        last_generation: 2,
        ..base()
    }
}

/// Three servers become four.
pub(super) fn three_to_four() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![add(&[3])]), client(&[0, 1, 2, 3])],
        budget: faults(0, 1, 6),
        last_generation: 2,
        ..base()
    }
}

/// Five servers become four, and then three. The operator reaches the servers that stay. Another client reaches the
/// servers that leave.
pub(super) fn five_to_three() -> Setup {
    let all = operator(&[0, 1, 2, 3, 4], vec![remove(&[4]), remove(&[3])]);
    Setup {
        servers: 5,
        members: vec![0, 1, 2, 3, 4],
        clients: vec![ClientSpec { unreachable: vec![3, 4], ..all }, client(&[2, 3, 4])],
        budget: faults(0, 1, 5),
        ..base()
    }
}

/// Two clients found a cluster with different lists.
pub(super) fn two_clients_found_cluster() -> Setup {
    Setup {
        servers: 4,
        members: Vec::new(),
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 3], 1)],
        budget: faults(0, 1, 4),
        last_generation: 2,
        promises_in_one_step: false,
        ..base()
    }
}

/// A majority loses its memory while a client has a lease. Two clients recover the cluster.
pub(super) fn majority_loses_memory() -> Setup {
    Setup {
        members_without_memory: vec![0],
        faulty_servers: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 2], 1)],
        budget: faults(1, 1, 4),
        last_generation: 2,
        ..base()
    }
}

/// An operator replaces a server. The list of another client does not contain the new server, and this client cannot
/// reach the first server.
pub(super) fn server_replaced_with_partial_reach() -> Setup {
    let other = ClientSpec { unreachable: vec![0], ..client(&[0, 1, 2]) };
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), other],
        budget: faults(0, 1, 4),
        last_generation: 2,
        ..base()
    }
}

/// A member has lost its memory. Two clients reach different servers at one address, and one of the clients reaches
/// only two servers.
pub(super) fn member_lost_behind_shared_address() -> Setup {
    let other = ClientSpec { list: vec![(0, 0), (1, 3), (2, 2)], unreachable: vec![2], ..proposing(&[], 1) };
    Setup {
        servers: 4,
        members_without_memory: vec![0],
        clients: vec![client(&[0, 1, 2]), other],
        last_generation: 2,
        ..base()
    }
}

/// A client's list contains addresses that are not in the roster.
pub(super) fn list_of_other_addresses() -> Setup {
    Setup { servers: 5, clients: vec![client(&[0, 1, 2]), proposing(&[2, 3, 4], 1)], last_generation: 2, ..base() }
}

/// An operator replaces two servers, one after the other, and cannot reach the first replaced server. Another client
/// cannot reach one of the members.
pub(super) fn two_replacements() -> Setup {
    let all = operator(&[0, 1, 2, 3, 4], vec![replace(2, 3), replace(1, 4)]);
    let other = ClientSpec { unreachable: vec![0], ..client(&[0, 1, 2]) };
    Setup { servers: 5, clients: vec![ClientSpec { unreachable: vec![2], ..all }, other], ..base() }
}

/// Two operators that reach different members, and a member that restarts with its id.
pub(super) fn two_operators_and_restart() -> Setup {
    let first = operator(&[0, 1, 2, 3], vec![replace(2, 3)]);
    let second = operator(&[0, 1, 2, 3], vec![replace(0, 3)]);
    Setup {
        servers: 4,
        faulty_servers: vec![1],
        clients: vec![ClientSpec { unreachable: vec![2], ..first }, ClientSpec { unreachable: vec![0], ..second }],
        trusts_restarts: true,
        promises_in_one_step: false,
        budget: Budget { restarts: 1, ..faults(0, 0, 4) },
        last_generation: 2,
        ..base()
    }
}

/// A server is replaced, and two clients measure the quarantine of the new server. A ttl lasts two time steps.
pub(super) fn server_replaced_with_half_time_steps() -> Setup {
    let other = ClientSpec { unreachable: vec![0], ..client(&[0, 1, 2, 3]) };
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), other],
        last_generation: 2,
        time_steps_per_ttl: 2,
        ..base()
    }
}

/// A holder renews while a server is replaced. A ttl lasts two time steps.
pub(super) fn server_replaced_while_holder_renews() -> Setup {
    Setup { budget: faults(0, 2, 6), renews: true, ..server_replaced_with_half_time_steps() }
}

/// Two clients reach different servers at two addresses, so one of the clients reads only one member that has its
/// memory.
pub(super) fn majority_behind_other_servers() -> Setup {
    let other = ClientSpec { list: vec![(0, 3), (1, 4), (2, 2)], ..proposing(&[], 1) };
    Setup { servers: 5, clients: vec![client(&[0, 1, 2]), other], last_generation: 2, ..base() }
}

/// A server loses its memory while two clients use the cluster.
pub(super) fn server_restarts_empty() -> Setup {
    Setup {
        faulty_servers: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 2], 1)],
        budget: faults(1, 1, 4),
        last_generation: 2,
        ..base()
    }
}

/// Two operators replace two servers at the same time. A proposer gets all promises in one step.
pub(super) fn two_operators_at_once() -> Setup {
    Setup { promises_in_one_step: true, last_generation: 2, ..two_operators() }
}
