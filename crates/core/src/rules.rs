//! The rules of the protocol. All rules are in force, except in tests that show what goes wrong without one of them.

/// A rule of the protocol. A test can switch one rule off, to show that the checks notice when the rule is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A node that lost its memory does not vote before `max_ttl` has passed.
    Quarantine,
    /// A quarantined node keeps the highest claim of elapsed time and never adds claims.
    HighestClaim,
    /// A release goes to all nodes, including those that did not answer.
    ReleaseEverywhere,
    /// Validity counts from before the request was sent, not from the reply.
    CountFromSend,
    /// An acquire succeeds only when a majority has granted the same fence.
    EqualFences,
    /// A waiter with some votes yields them when a waiter with a lower ticket wants the lock.
    Yield,
    /// A waiter yields to a lower ticket that has the vote of the refusing node, not only to one that waits there.
    YieldToVoters,
    /// A lease whose validity has ended stays lost, even if nodes grant it later.
    LostIsFinal,
    /// A seal asks only the nodes that voted for this attempt.
    RaiseOwnVotes,
    /// A lease is lost when its validity has ended by the wall clock, even if not by the boot-time clock.
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
    missing: Option<Rule>,
}

impl Rules {
    /// Returns whether a rule is in force. Without the `mutants` feature this is always true, at compile time.
    #[inline]
    pub fn hold(self, rule: Rule) -> bool {
        #[cfg(feature = "mutants")]
        return self.missing != Some(rule);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = rule;
            true
        }
    }

    /// Returns all rules except this one, for tests only.
    #[cfg(feature = "mutants")]
    pub fn without(rule: Rule) -> Self {
        Self { missing: Some(rule) }
    }
}
