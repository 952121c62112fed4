//! Seeds whose runs fail if a past bug returns, or if one of the rules is switched off. The comment above each bug says
//! which fix to undo, and which violation the run then has. With the fix in place, the run has no violation. The page
//! `docs/evidence/sim.md` has the date on which each fix was last undone.
//!
//! When the code that draws plans changes, a seed gives another run, and the bug needs a new seed. A test then fails,
//! because the run no longer has the stored [`Shape`]. To find a new seed, undo the fix of the bug, let
//! `./x sim --runs 1000000` name the first seed that fails, and check that its run passes with the fix. Some bugs need a
//! hundred thousand runs. You need fewer runs if you skip each [`Plan`](crate::plan::Plan) that cannot show the bug: for
//! example, a plan without short leases that are detached, without nodes that stop, or without waiters.

use crate::shape::Shape;

/// For each rule that can be switched off, a seed whose run fails without the rule. When a stored seed no longer fails,
/// `./x sim --without RULE` finds and prints another one.
pub const SEEDS_WITHOUT_RULE: &[(&str, u64)] = &[
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
    ("owe-releases", 2_914_914_626),
    ("release-in-order", 6),
    ("leave-tombstones", 3_304),
];

/// A fixed bug.
#[derive(Clone, Copy, Debug)]
pub struct PastBug {
    /// The title on the page.
    pub name: &'static str,
    /// A seed whose run fails without the fix.
    pub seed: u64,
    /// A description of the bug.
    pub description: &'static str,
    /// The shape of the run with the fix, stored when the run last failed without the fix. If the run has another shape
    /// now, it may no longer show the bug.
    pub shape: Shape,
}

/// All past bugs that the simulation found.
pub const ALL: &[PastBug] = &[
    // Remove the call of `leave_queue` in `Claim::detach` (lease/claim/repair.rs). The run then leaves a queue position
    // behind.
    PastBug {
        name: "a detached lease kept its queue position",
        seed: 301,
        description: "a waiter won without the vote of every node and detached the lease. It kept its queue position \
            on the other nodes until the position expired, and these nodes did not vote for other clients",
        shape: Shape {
            grants: 29,
            refusals: 60,
            renewals: 83,
            removed_votes: 29,
            queue_leaves: 25,
            yields: 0,
            handoffs: 0,
            from_ended_connections: 0,
        },
    },
    // In `Delivery::connected` (core/delivery.rs), queue the releases that yield after all other releases. The run then
    // leaves a queue position behind: a waiter's release leaves the queue, and the waiter's yield arrives after the
    // release.
    PastBug {
        name: "a queue position came back with a late yield",
        seed: 1_372,
        description: "after a reconnect, a client sent a yield (which returns votes but keeps the queue position) \
            after a later release of the same waiter. The yield queued the waiter again",
        shape: Shape {
            grants: 51,
            refusals: 20,
            renewals: 0,
            removed_votes: 50,
            queue_leaves: 50,
            yields: 6,
            handoffs: 0,
            from_ended_connections: 0,
        },
    },
    // Remove the call of `listen` in `Claim::ask` (lease/claim/steps.rs). The run then leaves a queue position behind.
    PastBug {
        name: "a queue position came back with the last request",
        seed: 42_200,
        description: "a waiter repeated its request to a node and won before the request arrived. The node's vote had \
            expired, so the node queued the waiter. The release did not remove the queue position, because \
            releases left the queue only on nodes that had not granted",
        shape: Shape {
            grants: 17,
            refusals: 19,
            renewals: 9,
            removed_votes: 7,
            queue_leaves: 15,
            yields: 0,
            handoffs: 0,
            from_ended_connections: 0,
        },
    },
    // Remove `listens ||` in `ClaimState::parting` (lease/claim.rs). The run then leaves a queue position behind. If you
    // undo only the fix of the previous bug (the call of `listen` in `Claim::ask`), the run has no violation.
    PastBug {
        name: "a queue position of an earlier refusal was forgotten",
        seed: 13_837,
        description: "a node refused a waiter, which yielded its votes and repeated its requests. The waiter won \
            before its last request to the node arrived. The node had granted an earlier request, but had \
            lost this vote with its memory, so it queued the waiter. The release did not remove the queue \
            position, because the node had granted",
        shape: Shape {
            grants: 44,
            refusals: 90,
            renewals: 43,
            removed_votes: 53,
            queue_leaves: 69,
            yields: 9,
            handoffs: 26,
            from_ended_connections: 0,
        },
    },
    // Let `is_passed` (core/node/apply.rs) always return false. The run then has a fence out of order.
    PastBug {
        name: "an owner reentered with the fence of another",
        seed: 53_813,
        description: "an owner's clock stopped, so the owner renewed its lease although another client had held the \
            lock since. A node granted the owner's vote again, and stored the other client's fence with it. \
            When the owner acquired the lock again, it got this fence",
        shape: Shape {
            grants: 40,
            refusals: 39,
            renewals: 44,
            removed_votes: 40,
            queue_leaves: 21,
            yields: 5,
            handoffs: 0,
            from_ended_connections: 0,
        },
    },
];
