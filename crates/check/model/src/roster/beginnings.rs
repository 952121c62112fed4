//! The setups of the searches.

use super::setup::{Budget, ClientSpec, Order, Setup};

fn base() -> Setup {
    Setup {
        servers: 3,
        members: vec![0, 1, 2],
        lost: Vec::new(),
        fragile: Vec::new(),
        clients: Vec::new(),
        budget: Budget { crashes: 0, restarts: 0, ticks: 1, asks: 4 },
        generations: 3,
        ticks_of_ttl: 1,
        renews: false,
        promises_at_once: true,
        trusts_restarts: false,
        flaw: None,
    }
}

fn faults(crashes: u8, ticks: u8, asks: u8) -> Budget {
    Budget { crashes, restarts: 0, ticks, asks }
}

fn client(servers: &[usize]) -> ClientSpec {
    ClientSpec::new(servers.iter().copied())
}

fn proposing(servers: &[usize], proposals: u8) -> ClientSpec {
    ClientSpec { proposals, ..client(servers) }
}

fn operator(servers: &[usize], orders: Vec<Order>) -> ClientSpec {
    ClientSpec { orders, ..client(servers) }
}

fn replace(old: usize, new: usize) -> Order {
    Order { add: vec![new], remove: vec![old] }
}

fn add(new: &[usize]) -> Order {
    Order { add: new.to_vec(), remove: Vec::new() }
}

fn remove(old: &[usize]) -> Order {
    Order { add: Vec::new(), remove: old.to_vec() }
}

/// Two clients with different lists of as many servers; a server loses its memory.
pub(super) fn lists() -> Setup {
    Setup {
        servers: 4,
        fragile: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 3], 1)],
        budget: faults(1, 2, 4),
        ..base()
    }
}

/// An operator replaces a server; another client finishes that.
pub(super) fn replacing() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), proposing(&[0, 1, 3], 1)],
        budget: faults(0, 1, 4),
        ..base()
    }
}

/// One address leads two clients to two servers.
pub(super) fn two_behind_one_address() -> Setup {
    let other = ClientSpec { list: vec![(0, 0), (1, 1), (2, 3)], ..proposing(&[], 1) };
    Setup { servers: 4, clients: vec![proposing(&[0, 1, 2], 1), other], budget: faults(0, 1, 4), ..base() }
}

/// Two operators replace two servers at the same time.
pub(super) fn two_operators() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), operator(&[0, 1, 2, 3], vec![replace(1, 3)])],
        budget: faults(0, 1, 4),
        promises_at_once: false,
        ..base()
    }
}

/// A server has lost its memory, and then another one does.
pub(super) fn losses() -> Setup {
    Setup {
        lost: vec![1],
        fragile: vec![2],
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
        generations: 2,
        ..base()
    }
}

/// Three servers become one.
pub(super) fn three_to_one() -> Setup {
    Setup {
        clients: vec![operator(&[0, 1, 2], vec![remove(&[0, 1])]), client(&[0, 1, 2])],
        budget: faults(0, 2, 4),
        generations: 2,
        ..base()
    }
}

/// Three servers become four.
pub(super) fn three_to_four() -> Setup {
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![add(&[3])]), client(&[0, 1, 2, 3])],
        budget: faults(0, 1, 6),
        generations: 2,
        ..base()
    }
}

/// Five servers become four, and then three. The operator reaches those that stay, and another client those that leave.
pub(super) fn five_to_three() -> Setup {
    let all = operator(&[0, 1, 2, 3, 4], vec![remove(&[4]), remove(&[3])]);
    Setup {
        servers: 5,
        members: vec![0, 1, 2, 3, 4],
        clients: vec![ClientSpec { cut_off: vec![3, 4], ..all }, client(&[2, 3, 4])],
        budget: faults(0, 1, 5),
        ..base()
    }
}

/// Two clients found a cluster with different lists.
pub(super) fn founding() -> Setup {
    Setup {
        servers: 4,
        members: Vec::new(),
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 3], 1)],
        budget: faults(0, 1, 4),
        generations: 2,
        promises_at_once: false,
        ..base()
    }
}

/// A majority has lost its memory, and a client still has a lease; two clients recover the cluster.
pub(super) fn recovery() -> Setup {
    Setup {
        lost: vec![0],
        fragile: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 2], 1)],
        budget: faults(1, 1, 4),
        generations: 2,
        ..base()
    }
}

/// An operator replaces a server. One client has it in its list only, and the other one does not.
pub(super) fn early() -> Setup {
    let other = ClientSpec { cut_off: vec![0], ..client(&[0, 1, 2]) };
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), other],
        budget: faults(0, 1, 4),
        generations: 2,
        ..base()
    }
}

/// A member lost its memory; one address leads two clients to two servers; and one client reaches only two.
pub(super) fn split() -> Setup {
    let other = ClientSpec { list: vec![(0, 0), (1, 3), (2, 2)], cut_off: vec![2], ..proposing(&[], 1) };
    Setup { servers: 4, lost: vec![0], clients: vec![client(&[0, 1, 2]), other], generations: 2, ..base() }
}

/// A client's list has other addresses than the roster.
pub(super) fn other_list() -> Setup {
    Setup { servers: 5, clients: vec![client(&[0, 1, 2]), proposing(&[2, 3, 4], 1)], generations: 2, ..base() }
}

/// An operator replaces two servers, one after the other, and reaches neither the first of them nor all members.
pub(super) fn two_steps() -> Setup {
    let all = operator(&[0, 1, 2, 3, 4], vec![replace(2, 3), replace(1, 4)]);
    let other = ClientSpec { cut_off: vec![0], ..client(&[0, 1, 2]) };
    Setup { servers: 5, clients: vec![ClientSpec { cut_off: vec![2], ..all }, other], ..base() }
}

/// Two operators that reach different members, and a member that restarts with its id.
pub(super) fn restarting() -> Setup {
    let first = operator(&[0, 1, 2, 3], vec![replace(2, 3)]);
    let second = operator(&[0, 1, 2, 3], vec![replace(0, 3)]);
    Setup {
        servers: 4,
        fragile: vec![1],
        clients: vec![ClientSpec { cut_off: vec![2], ..first }, ClientSpec { cut_off: vec![0], ..second }],
        trusts_restarts: true,
        promises_at_once: false,
        budget: Budget { restarts: 1, ..faults(0, 0, 4) },
        generations: 2,
        ..base()
    }
}

/// A replaced server, and two clients that measure its quarantine, with a ttl of two steps of time.
pub(super) fn half_ticks() -> Setup {
    let other = ClientSpec { cut_off: vec![0], ..client(&[0, 1, 2, 3]) };
    Setup {
        servers: 4,
        clients: vec![operator(&[0, 1, 2, 3], vec![replace(2, 3)]), other],
        generations: 2,
        ticks_of_ttl: 2,
        ..base()
    }
}

/// A holder renews while a server is replaced, with a ttl of two steps of time.
pub(super) fn renewing() -> Setup {
    Setup { budget: faults(0, 2, 6), renews: true, ..half_ticks() }
}

/// Two addresses lead two clients to two servers. One of the clients sees one member with its memory.
pub(super) fn hidden() -> Setup {
    let other = ClientSpec { list: vec![(0, 3), (1, 4), (2, 2)], ..proposing(&[], 1) };
    Setup { servers: 5, clients: vec![client(&[0, 1, 2]), other], generations: 2, ..base() }
}

/// A server loses its memory while two clients use the cluster.
pub(super) fn restart_empty() -> Setup {
    Setup {
        fragile: vec![1],
        clients: vec![proposing(&[0, 1, 2], 1), proposing(&[0, 1, 2], 1)],
        budget: faults(1, 1, 4),
        generations: 2,
        ..base()
    }
}

/// Two operators replace two servers at the same time, and a client that has promises has them all.
pub(super) fn two_operators_at_once() -> Setup {
    Setup { promises_at_once: true, generations: 2, ..two_operators() }
}
