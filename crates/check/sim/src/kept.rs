//! The seeds of past bugs and of missing rules, by name. Above each bug stands what to undo, and what its run breaks then; with
//! everything in place it breaks nothing. The page says when that was seen last.
//!
//! When plans change, a seed becomes one run among others, and another is to be looked for: undo what is said, let
//! `./x sim --runs 1000000` name the first seed that breaks something, and see that its run breaks nothing with
//! everything in place. A run that has another shape than the one that is kept with it fails a test until that was done.
//! Some bugs take a hundred thousand runs to show: fewer, if only those are made whose [`Plan`](crate::plan::Plan) has
//! what the bug needs (short leases that are detached, nodes that stop, those who wait).

use crate::shape::Shape;

/// For each rule that can be switched off, a seed whose run shows that it is missing. When plans change, `./x sim --without RULE`
/// looks for another and says so.
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

/// A bug that was mended.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its name.
    pub name: &'static str,
    /// A seed that shows it.
    pub seed: u64,
    /// What it was.
    pub what: &'static str,
    /// What the run of the seed was like when it was seen to show the bug. A run that is not like that may show nothing.
    pub shape: Shape,
}

/// All of them.
pub const ALL: &[Kept] = &[
    // Without `leave_queue` in `Claim::detach`: left behind.
    Kept {
        name: "a lease that was detached left its place in the queue",
        seed: 384,
        what: "one who had waited, won without the vote of every node and detached the lease kept its place in the queue on the \
         other nodes for an entry lease, and so kept others from their votes",
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
    // With the releases that yield behind all others in `Delivery::connected`, and that called after `take_up`: left behind, by
    // a yield behind the release with which its waiter leaves.
    Kept {
        name: "a place in the queue came back behind the grant",
        seed: 1_000_232,
        what: "after a reconnect, a yield that had never been sent went behind the request that was granted, and put the waiter \
         in the queue once more",
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
        name: "a place in the queue came back with the last question",
        seed: 361_107,
        what: "a waiter asked once more and won meanwhile; the node, whose vote had lapsed, put it in the queue, and its release did \
         not take that back, since the node had granted before",
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
        name: "a place in the queue was forgotten with the last answer",
        seed: 172_899,
        what: "the same, with an answer that came before the release",
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
        name: "an owner entered again with the fence of another",
        seed: 53_813,
        what: "with a clock that stood still, an owner renewed after somebody else had come and gone: where its vote was given \
         anew the fence of the other stood, and its next entry got that",
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
