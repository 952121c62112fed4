//! What a client may do.

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Look at locks, nodes, history and metrics.
    Read,
    /// Lock, renew and release.
    Lock,
    /// Break somebody else's lease.
    Admin,
}

impl Scope {
    pub(super) const ALL: [(Self, &str); 3] = [(Self::Read, "read"), (Self::Lock, "lock"), (Self::Admin, "admin")];

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(scope, _)| *scope)
    }

    pub(super) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(scope, _)| *scope == self).map_or("", |(_, word)| word)
    }
}

/// Several of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scopes(pub(super) Vec<Scope>);

impl Scopes {
    pub(super) fn all() -> Self {
        Self(Scope::ALL.iter().map(|(scope, _)| *scope).collect())
    }

    pub(super) fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }
}
