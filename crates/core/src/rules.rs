//! Which rules of the protocol are in force: all of them, always, except in a test that shows what a rule is for.

/// A rule that a test may switch off, to see the check behind it go red.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A node that lost its memory does not vote before `max_ttl` has passed.
    Quarantine,
    /// A quarantined node keeps the highest claim of the time that has passed, and adds none.
    HighestClaim,
    /// A release goes to all nodes, also to those that did not answer.
    ReleaseEverywhere,
    /// Validity counts from before the request was sent, not from the reply.
    CountFromSend,
    /// A lease is handed out only when a majority carries one and the same fence.
    EqualFences,
    /// A waiter with some votes gives them back when one with a lower ticket wants the lock, too.
    Yield,
    /// It does so also when the lower ticket has the vote of the node that refused, not only when it waits there.
    YieldToVoters,
    /// A lease whose validity has ended stays lost, whatever is granted later.
    LostIsFinal,
    /// Only those are asked to raise their fence who voted for this attempt.
    RaiseOwnVotes,
    /// A lease is lost when the wall clock says that its time is over, although the boot-time clock does not.
    NoticePauses,
    /// A release stays owed when its connection ends before the node has acknowledged it.
    OweReleases,
    /// A release is sent after the requests of its attempt.
    ReleaseInOrder,
    /// A release leaves a tombstone if a request of its attempt may still arrive.
    LeaveTombstones,
}

impl Rule {
    /// Every rule, with the name that selects it in tests.
    pub const ALL: [(&'static str, Self); 13] = [
        ("quarantine", Self::Quarantine),
        ("highest-claim", Self::HighestClaim),
        ("release-everywhere", Self::ReleaseEverywhere),
        ("count-from-send", Self::CountFromSend),
        ("equal-fences", Self::EqualFences),
        ("yield", Self::Yield),
        ("yield-to-voters", Self::YieldToVoters),
        ("lost-is-final", Self::LostIsFinal),
        ("raise-own-votes", Self::RaiseOwnVotes),
        ("notice-pauses", Self::NoticePauses),
        ("owe-releases", Self::OweReleases),
        ("release-in-order", Self::ReleaseInOrder),
        ("leave-tombstones", Self::LeaveTombstones),
    ];
}

/// The rules in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    #[cfg(feature = "mutants")]
    without: Option<Rule>,
}

impl Rules {
    /// Whether a rule is in force. Without the `mutants` feature the answer is yes, at compile time.
    #[inline]
    pub fn hold(self, rule: Rule) -> bool {
        #[cfg(feature = "mutants")]
        return self.without != Some(rule);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = rule;
            true
        }
    }

    /// All rules but one: a mutant, for tests only.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Self { without: Some(rule) }
    }
}
