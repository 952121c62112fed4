//! Bundles the messages of a batch: one command for many messages costs a server much less than one command each.

use std::collections::HashMap;
use std::vec::IntoIter;

use quorlock_core::request::Request;
use quorlock_core::terms::Mode;
use quorlock_core::time::Ttl;

use super::super::trouble::malformed;
use super::super::value::Value;
use crate::node::{Message, Trouble};

/// The most bundled messages of a batch: Lua's `unpack` is limited in length.
const BUNDLED_MAX: usize = 128;

/// The kinds of bundles, in the order in which they are sent. The other messages follow in their own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleKind {
    Release,
    Acquire,
    Renew,
}

impl BundleKind {
    pub(super) const ALL: [Self; 3] = [Self::Release, Self::Acquire, Self::Renew];
}

/// The node's clock, if the reply has it, and one value for each message of a bundle.
type Share = (Option<Value>, IntoIter<Value>);

/// The bundle of each message of a batch; empty if there are no bundles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::node::redis) struct Bundles(Vec<Option<BundleKind>>);

impl Bundles {
    /// Chooses the bundles of a batch. Messages about one name keep their order, so a bundle contains a name at most
    /// once.
    ///
    /// A batch is not bundled if only some of its requests are plain, or if any leaves a tombstone: a tombstone belongs
    /// to an attempt and not to a name.
    pub(in crate::node::redis) fn of<'a>(messages: &'a [Message]) -> Self {
        let [first, _, ..] = messages else { return Self::default() };
        let is_plain = first.request.is_plain();
        if messages.iter().any(|message| message.request.is_plain() != is_plain || leaves_tombstone(&message.request)) {
            return Self::default();
        }
        let (mut acquired, mut renewed) = (None, None);
        // The names so far, and whether a bundled release is all that precedes them.
        let mut seen: HashMap<&'a str, bool> = HashMap::with_capacity(messages.len());
        let choose = |Message { key, request }: &'a Message| {
            let before = seen.insert(&key.text, false);
            match &**request {
                Request::PlainRelease { .. } | Request::Release { parting: None, .. } if before.is_none() => {
                    seen.insert(&key.text, true);
                    Some(BundleKind::Release)
                }
                _ if before == Some(false) => None,
                Request::Acquire { ttl, holder, mode: Mode::EXCLUSIVE, .. } => {
                    (*acquired.get_or_insert((ttl, holder)) == (ttl, holder)).then_some(BundleKind::Acquire)
                }
                request => {
                    let terms = renewal_terms(request)?;
                    (*renewed.get_or_insert(terms) == terms).then_some(BundleKind::Renew)
                }
            }
        };
        let mut bundles = Self(messages.iter().take(BUNDLED_MAX).map(choose).collect());
        bundles.drop_single(BundleKind::Acquire);
        bundles.drop_single(BundleKind::Renew);
        // A release that must precede an acquire or a renewal stays a bundle even if it is alone.
        if bundles.count(BundleKind::Acquire) + bundles.count(BundleKind::Renew) == 0 {
            bundles.drop_single(BundleKind::Release);
        }
        if bundles.0.iter().any(Option::is_some) { bundles } else { Self::default() }
    }

    /// Dissolves a bundle of one message.
    fn drop_single(&mut self, kind: BundleKind) {
        if self.count(kind) == 1 {
            self.0.iter_mut().filter(|other| **other == Some(kind)).for_each(|single| *single = None);
        }
    }

    /// Returns the bundle of a message.
    pub(super) fn kind(&self, at: usize) -> Option<BundleKind> {
        self.0.get(at).copied().flatten()
    }

    pub(super) fn count(&self, kind: BundleKind) -> usize {
        self.0.iter().filter(|other| **other == Some(kind)).count()
    }

    /// Returns the messages of a bundle.
    pub(super) fn members<'a>(&self, kind: BundleKind, messages: &'a [Message]) -> impl Iterator<Item = &'a Message> {
        messages.iter().zip(&self.0).filter(move |(_, other)| **other == Some(kind)).map(|(message, _)| message)
    }

    /// Returns the number of values in the reply to this many messages.
    pub(super) fn values(&self, messages: usize) -> usize {
        messages - BundleKind::ALL.map(|kind| self.count(kind).saturating_sub(1)).iter().sum::<usize>()
    }

    /// Takes the values of the bundles, one share for each [`BundleKind`].
    pub(super) fn shares(
        &self,
        is_plain: bool,
        values: &mut impl Iterator<Item = Value>,
    ) -> Result<[Share; 3], Trouble> {
        let mut shares = BundleKind::ALL.map(|_| (None, Vec::new().into_iter()));
        for kind in BundleKind::ALL {
            let count = self.count(kind);
            let has_clock = kind != BundleKind::Release && !is_plain;
            if count == 0 {
                continue;
            }
            shares[kind as usize] = match values.next() {
                // One error applies to the whole bundle.
                Some(error @ Value::Error(_)) => (None, vec![error; count].into_iter()),
                Some(value) if count == 1 => (None, vec![value].into_iter()),
                Some(Value::Array(parts)) if parts.len() == count + usize::from(has_clock) => {
                    let mut parts = parts.into_iter();
                    (if has_clock { parts.next() } else { None }, parts)
                }
                _ => return Err(malformed("a bundle")),
            };
        }
        Ok(shares)
    }

    /// Returns whether this message shares a command with others.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_shared(&self, at: usize) -> bool {
        self.kind(at).is_some_and(|kind| self.count(kind) > 1)
    }
}

/// Returns the arguments that all renewals of a bundle must share. Returns `None` for other requests, and for renewals
/// of locks with entries.
fn renewal_terms(request: &Request) -> Option<(Ttl, bool, &str)> {
    match request {
        Request::Renew { ttl, repair, holder, mode: Mode::EXCLUSIVE, .. } => Some((*ttl, *repair, holder)),
        Request::PlainExtend { ttl, .. } => Some((*ttl, false, "")),
        _ => None,
    }
}

fn leaves_tombstone(request: &Request) -> bool {
    matches!(request, Request::Break { .. } | Request::Retire { .. } | Request::Release { tombstone: Some(_), .. })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorlock_core::fence::Fence;
    use quorlock_core::name::{Channel, LeaseId, Name, OwnerId};
    use quorlock_core::request::{Parting, Ticket, Waiter};

    use super::*;
    use crate::node::key::KeyTemplate;

    fn ttl(seconds: u64) -> Ttl {
        Ttl::new(Duration::from_secs(seconds), Duration::MAX).unwrap()
    }

    fn message(name: &str, request: Request) -> Message {
        let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
        let key = template.key(&Name::new(name).unwrap()).unwrap();
        Message { key: Arc::new(key), request: Arc::new(request) }
    }

    const ATTEMPT: LeaseId = LeaseId::from_bits(7);

    fn acquire(name: &str) -> Message {
        acquire_as(name, ttl(1), "me", Mode::EXCLUSIVE)
    }

    fn acquire_as(name: &str, ttl: Ttl, holder: &str, mode: Mode) -> Message {
        let (attempt, proposal, holder) = (ATTEMPT, Fence::new(1), holder.into());
        message(name, Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: None })
    }

    fn release(name: &str) -> Message {
        message(name, Request::Release { attempt: ATTEMPT, tombstone: None, parting: None })
    }

    fn plain_release(name: &str) -> Message {
        message(name, Request::PlainRelease { attempt: ATTEMPT })
    }

    fn plain_acquire(name: &str) -> Message {
        message(name, Request::PlainAcquire { attempt: ATTEMPT, ttl: ttl(1) })
    }

    fn renew(name: &str) -> Message {
        renew_as(name, ttl(1), "me", true, Mode::EXCLUSIVE)
    }

    fn renew_as(name: &str, ttl: Ttl, holder: &str, repair: bool, mode: Mode) -> Message {
        let (attempt, fence, holder) = (ATTEMPT, Fence::new(1), holder.into());
        message(name, Request::Renew { attempt, fence, ttl, repair, holder, mode })
    }

    fn plain_extend(name: &str, seconds: u64) -> Message {
        message(name, Request::PlainExtend { attempt: ATTEMPT, ttl: ttl(seconds) })
    }

    impl Bundles {
        /// Returns the position in which this message is sent within its batch.
        pub(in crate::node::redis) fn turn(&self, at: usize) -> (usize, usize) {
            (self.kind(at).map_or(BundleKind::ALL.len(), |kind| kind as usize), at)
        }

        /// Returns the number of messages in each bundle.
        pub(in crate::node::redis) fn counts(&self) -> [usize; 3] {
            BundleKind::ALL.map(|kind| self.count(kind))
        }
    }

    const NONE: Vec<usize> = Vec::new();

    /// Returns the positions of the bundled releases, acquires and renewals.
    fn chosen_of_all(messages: &[Message]) -> [Vec<usize>; 3] {
        let bundles = Bundles::of(messages);
        BundleKind::ALL.map(|kind| (0..messages.len()).filter(|at| bundles.kind(*at) == Some(kind)).collect())
    }

    /// Returns the positions of the bundled releases and acquires. Asserts that no renewal is bundled.
    fn chosen(messages: &[Message]) -> [Vec<usize>; 2] {
        let [releases, acquires, renewals] = chosen_of_all(messages);
        assert_eq!(renewals, NONE);
        [releases, acquires]
    }

    #[test]
    fn what_is_alike_goes_together() {
        let messages = [acquire("a"), release("b"), acquire("c"), release("d"), acquire("b")];
        assert_eq!(chosen(&messages), [vec![1, 3], vec![0, 2, 4]]);
        let messages = [plain_release("a"), plain_acquire("b"), plain_release("c"), plain_acquire("a")];
        assert_eq!(chosen(&messages), [vec![0, 2], NONE]);
    }

    #[test]
    fn one_alone_is_no_bundle_unless_another_must_not_pass_it() {
        assert_eq!(chosen(&[]), [NONE, NONE]);
        assert_eq!(chosen(&[acquire("a")]), [NONE, NONE]);
        assert_eq!(chosen(&[acquire("a"), release("b")]), [NONE, NONE]);
        assert_eq!(chosen(&[release("a"), acquire("a"), acquire("b")]), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn one_that_goes_ahead_alone_shares_no_command() {
        let bundles = Bundles::of(&[release("a"), acquire("a"), acquire("b"), acquire("b")]);
        assert_eq!([0, 1, 2, 3].map(|at| bundles.is_shared(at)), [false, true, true, false]);
    }

    #[test]
    fn messages_about_one_name_keep_their_order() {
        // The release of an attempt without a reply must not overtake its acquire.
        let messages = [plain_acquire("a"), plain_release("a"), plain_release("b"), plain_release("c")];
        assert_eq!(chosen(&messages), [vec![2, 3], NONE]);
        let messages = [acquire("a"), release("a"), release("b"), release("c"), acquire("a"), acquire("b")];
        assert_eq!(chosen(&messages), [vec![2, 3], vec![0, 5]]);
        assert_eq!(chosen(&[release("a"), release("a"), release("b")]), [vec![0, 2], NONE]);
    }

    #[test]
    fn acquires_go_together_with_their_like_only() {
        let owner = OwnerId::from_bits(1);
        let messages = [
            acquire("a"),
            acquire_as("b", ttl(2), "me", Mode::EXCLUSIVE),
            acquire_as("c", ttl(1), "you", Mode::EXCLUSIVE),
            acquire_as("d", ttl(1), "me", Mode::Shared { owner, reenters: false }),
            acquire_as("e", ttl(1), "me", Mode::Exclusive { writer: Some(owner) }),
            acquire("f"),
        ];
        assert_eq!(chosen(&messages), [NONE, vec![0, 5]]);
    }

    #[test]
    fn renewals_go_together_with_their_like_only() {
        let owner = OwnerId::from_bits(1);
        let messages = [
            renew("a"),
            renew_as("b", ttl(2), "me", true, Mode::EXCLUSIVE),
            renew_as("c", ttl(1), "you", true, Mode::EXCLUSIVE),
            renew_as("d", ttl(1), "me", false, Mode::EXCLUSIVE),
            renew_as("e", ttl(1), "me", true, Mode::Shared { owner, reenters: false }),
            renew_as("f", ttl(1), "me", true, Mode::Exclusive { writer: Some(owner) }),
            renew("g"),
        ];
        assert_eq!(chosen_of_all(&messages), [NONE, NONE, vec![0, 6]]);
        let messages = [plain_extend("a", 1), plain_extend("b", 2), plain_acquire("c"), plain_extend("d", 1)];
        assert_eq!(chosen_of_all(&messages), [NONE, NONE, vec![0, 3]]);
    }

    #[test]
    fn renewals_pass_no_message_about_their_name_and_none_passes_them() {
        // A release is sent before the next holder's renewal, and a renewal before its own release.
        let messages = [release("a"), renew("a"), renew("b"), release("b")];
        assert_eq!(chosen_of_all(&messages), [vec![0], NONE, vec![1, 2]]);
        let messages = [renew("a"), acquire("a"), acquire("b"), renew("b"), acquire("c"), renew("d")];
        assert_eq!(chosen_of_all(&messages), [NONE, vec![2, 4], vec![0, 5]]);
        assert_eq!(chosen_of_all(&[renew("a"), renew("a")]), [NONE, NONE, NONE]);
        // Messages outside of bundles are sent last.
        let messages = [acquire("a"), renew("a"), renew("b"), renew("c")];
        assert_eq!(chosen_of_all(&messages), [NONE, NONE, vec![2, 3]]);
    }

    #[test]
    fn places_in_line_and_tombstones_are_given_up_one_by_one() {
        let waiter = Waiter { ticket: Ticket { at: 1, id: 2 }, channel: Channel(3), shared: false };
        let parting = |parting| message("c", Request::Release { attempt: ATTEMPT, tombstone: None, parting });
        let messages = [release("a"), parting(Some(Parting::Leave(waiter))), release("b")];
        assert_eq!(chosen(&messages), [vec![0, 2], NONE]);
        let tombstone = message("c", Request::Release { attempt: ATTEMPT, tombstone: Some(1), parting: None });
        for other in [
            tombstone,
            plain_release("c"),
            message("c", Request::Retire { owner: OwnerId::from_bits(1), tombstone: 1 }),
        ] {
            assert_eq!(chosen(&[release("a"), release("b"), other, acquire("d"), acquire("e")]), [NONE, NONE]);
        }
    }

    #[test]
    fn as_many_go_together_as_a_batch_has() {
        let names: Vec<String> = (0..BUNDLED_MAX + 2).map(|number| number.to_string()).collect();
        let messages: Vec<Message> = names.iter().map(|name| plain_release(name)).collect();
        assert_eq!(Bundles::of(&messages).counts(), [BUNDLED_MAX, 0, 0]);
    }
}
