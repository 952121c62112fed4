//! The seeds of past bugs and of missing rules, by name. Above each bug stands what to undo, and what its run breaks then; with
//! everything in place it breaks nothing. The page says when that was seen last.
//!
//! When plans change, a seed becomes one run among others, and another is to be looked for: undo what is said, let
//! `./x sim --runs 300000` name the first seed that breaks something, and see that its run breaks nothing with
//! everything in place.

/// For each rule that can be switched off, a seed whose run shows that it is missing. When plans change, `./x sim --without RULE`
/// looks for another and says so.
pub const MISSED: &[(&str, u64)] = &[
    ("quarantine", 2_412_632_086),
    ("release-everywhere", 2_057_096_167),
    ("count-from-send", 102_857_416),
    ("equal-fences", 157_175_041),
    ("yield", 4_255_394_779),
    ("yield-to-voters", 635_119_037),
    ("lost-is-final", 3_801_194_987),
    ("raise-own-votes", 806_281_794),
];

/// The name of a bug, a seed that shows it, and what it was.
pub type Kept = (&'static str, u64, &'static str);

/// All of them.
pub const ALL: &[Kept] = &[
    // Without `leave_lines` in `Held::hand_over`: left behind.
    (
        "a lease that was handed over left its place in line",
        384,
        "one who had waited, won without the vote of every node and handed the lease over kept its place in line on the \
         other nodes for an entry lease, and so kept others from their votes",
    ),
    // With yields that were never sent behind everything else in `Outbox::owe_again`, and that called after `take_up`: left
    // behind, by a yield behind the release with which its waiter leaves.
    (
        "a place in line came back behind the grant",
        6_683,
        "after a reconnect, a yield that had never been sent went behind the request that was granted, and put the waiter \
         in line once more",
    ),
    // Without those that are unanswered in `Mark::may_be_placed`: left behind.
    (
        "a place in line came back with the last question",
        1_012_878,
        "a waiter asked once more and won meanwhile; the node, whose vote had lapsed, put it in line, and its release did \
         not take that back, since the node had granted before",
    ),
    // Without `Mark::may_be_placed` in `Held::may_be_in_line`: left behind. Where what is unanswered still counts, this run
    // breaks nothing.
    (
        "a place in line was forgotten with the last answer",
        1_002_510,
        "the same, with an answer that came before the release",
    ),
    // Without `is_passed` in the core's rules for a node: fence out of order.
    (
        "an owner entered again with the fence of another",
        53_813,
        "with a clock that stood still, an owner renewed after somebody else had come and gone: where its vote was given \
         anew the fence of the other stood, and its next entry got that",
    ),
    // Without `has_left` in `Outbox::drain`: left behind.
    (
        "a lease that was handed over lined up where it had not asked yet",
        66_313,
        "whoever handed a lease over before every node had granted it went on asking the rest, and a request that had not \
         been sent by then put it in line behind its leaving",
    ),
];
