//! Seeds of past bugs and of missing rules. The comment above each bug says which fix to undo, and which violation the
//! run then shows. With the fix in place the run has no violation. The page has the date of the last check.
//!
//! When plans change, a seed becomes an ordinary run, and the bug needs a new seed: undo its fix, let
//! `./x sim --runs 1000000` name the first seed that fails, and check that this seed passes with the fix. A test fails
//! for each bug whose run no longer has the stored shape, until the bug has a new seed. Some bugs take a hundred thousand
//! runs. It takes fewer runs if you skip each [`Plan`](crate::plan::Plan) that lacks what the bug needs (short leases
//! that are detached, nodes that stop, waiters).

use crate::shape::Shape;

/// For each rule that can be switched off, a seed whose run fails without it. When plans change,
/// `./x sim --without RULE` searches for another and prints it.
pub const MISSED: &[(&str, u64)] = &[
    ("quarantine", 2),
    ("highest-claim", 930_386_608),
    ("release-everywhere", 2_057_096_167),
    ("count-from-send", 387),
    ("equal-fences", 16),
    ("yield", 3_123_009_658),
    ("yield-to-voters", 1_280_957_553),
    ("lost-is-final", 28),
    ("raise-own-votes", 15_400),
    ("notice-pauses", 64),
    ("owe-releases", 29),
    ("release-in-order", 6),
    ("leave-tombstones", 3_304),
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
    // Remove the call of `leave_queue` in `Claim::detach` (lease/claim/repair.rs). The run then leaves a queue position behind.
    Kept {
        name: "a detached lease kept its queue position",
        seed: 301,
        what: "a waiter won without the vote of every node and detached the lease. It kept its queue position on the other nodes \
         until the position expired, and these nodes did not vote for other clients",
        shape: Shape {
            granted: 29,
            refused: 60,
            renewals: 83,
            released: 29,
            left: 25,
            yielded: 0,
            handed_on: 0,
            late: 0,
        },
    },
    // In `Delivery::connected` (core/delivery.rs), queue the releases that yield after all other releases. The run then leaves a
    // queue position behind: the node gets a yield after the release with which the same waiter left the queue.
    Kept {
        name: "a queue position came back with a late yield",
        seed: 1_372,
        what: "after a reconnect, a client sent a yield (which returns votes but keeps the queue position) after a later release of \
         the same waiter. The yield queued the waiter again",
        shape: Shape {
            granted: 51,
            refused: 20,
            renewals: 0,
            released: 50,
            left: 50,
            yielded: 6,
            handed_on: 0,
            late: 0,
        },
    },
    // Remove the call of `listen` in `Claim::ask` (lease/claim/steps.rs). The run then leaves a queue position behind.
    Kept {
        name: "a queue position came back with the last request",
        seed: 42_200,
        what: "a waiter repeated its request to a node and won before the request arrived. The node's vote had expired, so the node \
         queued the waiter. The release did not remove the queue position, because the node had granted before",
        shape: Shape {
            granted: 17,
            refused: 19,
            renewals: 9,
            released: 7,
            left: 15,
            yielded: 0,
            handed_on: 0,
            late: 0,
        },
    },
    // Remove `listens ||` in `ClaimState::parting` (lease/claim.rs). The run then leaves a queue position behind. It does not if
    // only the call of `listen` in `Claim::ask` is removed.
    Kept {
        name: "a queue position of an earlier refusal was forgotten",
        seed: 13_837,
        what: "as above, for a waiter that the node had refused before: the waiter had yielded its votes and asked again, and the \
         node had lost its vote with its memory",
        shape: Shape {
            granted: 44,
            refused: 90,
            renewals: 43,
            released: 53,
            left: 69,
            yielded: 9,
            handed_on: 26,
            late: 0,
        },
    },
    // Let `is_passed` (core/node/apply.rs) always return false. The run then has a fence out of order.
    Kept {
        name: "an owner reentered with the fence of another",
        seed: 53_813,
        what: "an owner whose clock had stopped renewed after another client had held the lock. A node granted its vote again, with \
         the other client's fence, and the next time that the owner acquired the lock, it got that fence",
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
