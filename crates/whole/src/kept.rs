//! The seeds of past bugs, by name. A seed shows its bug in the code and with the plans of its time; later it is one run
//! among others.

/// The name of a bug, a seed that showed it, and what it was.
pub type Kept = (&'static str, u64, &'static str);

/// All of them.
pub const ALL: &[Kept] = &[
    (
        "a lease that was handed over left its place in line",
        153,
        "one who had waited, won without the vote of every node and handed the lease over kept its place in line on the \
         other nodes for an entry lease, and so kept others from their votes",
    ),
    (
        "a place in line came back behind the grant",
        3_275_187_105,
        "after a reconnect, a yield that had never been sent went behind the request that was granted, and put the waiter \
         in line once more",
    ),
    (
        "a place in line came back with the last question",
        3_943_228_976,
        "a waiter asked once more and won meanwhile; the node, whose vote had lapsed, put it in line, and its release did \
         not take that back, since the node had granted before",
    ),
    (
        "a place in line was forgotten with the last answer",
        4_119_305_307,
        "the same, with an answer that came before the release",
    ),
    (
        "an owner entered again with the fence of another",
        4_186_971_470,
        "with a clock that stood still, an owner renewed after somebody else had come and gone: where its vote was given \
         anew the fence of the other stood, and its next entry got that",
    ),
];
