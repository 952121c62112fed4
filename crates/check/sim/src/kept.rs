//! Seeds of past bugs and of missing rules. The comment above each bug says what to undo, and what the run then
//! violates; with the fix in place it violates nothing. The page has the date of the last check.
//!
//! When plans change, a seed becomes an ordinary run, and the bug needs a new seed: undo its fix, let
//! `./x sim --runs 1000000` name the first seed that fails, and check that this seed passes with the fix. A test fails
//! for each bug whose run no longer has the stored shape, until this is done. Some bugs take a hundred thousand runs;
//! fewer, if only those runs are made whose [`Plan`](crate::plan::Plan) has what the bug needs (short leases that are
//! detached, nodes that stop, waiters).

use crate::shape::Shape;

/// For each rule that can be switched off, a seed whose run fails without it. When plans change,
/// `./x sim --without RULE` searches for another and prints it.
pub const MISSED: &[(&str, u64)] = &[
    ("quarantine", 2_520_539_683),
    ("highest-claim", 516_438_935),
    ("release-everywhere", 2_057_096_167),
    ("count-from-send", 387),
    ("equal-fences", 157_175_041),
    ("yield", 3_123_009_658),
    ("yield-to-voters", 1_280_957_553),
    ("lost-is-final", 28),
    ("raise-own-votes", 15_400),
    ("notice-pauses", 64),
    ("owe-releases", 60),
    ("release-in-order", 6),
    ("leave-tombstones", 2_837),
];

/// A bug that was fixed.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The title on the page.
    pub name: &'static str,
    /// A seed whose run fails without the fix.
    pub seed: u64,
    /// A description of the bug.
    pub what: &'static str,
    /// The shape of the run when it was last seen to fail without the fix. A run of another shape may not show the bug.
    pub shape: Shape,
}

/// All bugs.
pub const ALL: &[Kept] = &[
    // Without `leave_queue` in `Claim::detach`: left behind.
    Kept {
        name: "a detached lease kept its queue position",
        seed: 384,
        what: "a waiter that won without the vote of every node and detached the lease kept its queue position on the other \
         nodes until it expired, and so kept other clients from their votes",
        shape: Shape {
            granted: 23,
            refused: 27,
            renewals: 24,
            released: 24,
            left: 10,
            yielded: 0,
            handed_on: 0,
            late: 0,
        },
    },
    // With yields after all other releases in `Delivery::connected`, and that called after `take_up`: left behind, by a yield
    // after the release with which its waiter leaves.
    Kept {
        name: "a queue position came back after the grant",
        seed: 1_000_232,
        what: "after a reconnect, a yield that had never been sent was sent after the granted request, and queued the waiter \
         again",
        shape: Shape {
            granted: 20,
            refused: 8,
            renewals: 16,
            released: 14,
            left: 15,
            yielded: 3,
            handed_on: 0,
            late: 0,
        },
    },
    // Without `listen` in `Claim::ask`: left behind.
    Kept {
        name: "a queue position came back with the last request",
        seed: 361_107,
        what: "a waiter asked again and won meanwhile; the node, whose vote had expired, queued it, and its release did not remove \
         the queue position, because the node had granted before",
        shape: Shape {
            granted: 33,
            refused: 83,
            renewals: 0,
            released: 20,
            left: 27,
            yielded: 0,
            handed_on: 15,
            late: 0,
        },
    },
    // Without `listens` in `Inner::parting`: left behind.
    Kept {
        name: "a queue position was forgotten with the last reply",
        seed: 172_899,
        what: "the same, with a reply that came before the release",
        shape: Shape {
            granted: 18,
            refused: 24,
            renewals: 5,
            released: 13,
            left: 16,
            yielded: 0,
            handed_on: 0,
            late: 0,
        },
    },
    // Without `is_passed` in the core's rules for a node: fence out of order.
    Kept {
        name: "an owner reentered with the fence of another",
        seed: 53_813,
        what: "with a stopped clock, an owner renewed after another client had held the lock: the node that granted its vote again \
         had the other client's fence, and the owner's next entry got that fence",
        shape: Shape {
            granted: 40,
            refused: 39,
            renewals: 44,
            released: 40,
            left: 21,
            yielded: 5,
            handed_on: 0,
            late: 0,
        },
    },
];
