//! Which messages of a batch go together: one command for many of them costs a server much less than one for each.

use quorlock_core::mode::Mode;
use quorlock_core::time::Ttl;
use quorlock_core::vote::Request;

use super::super::trouble::malformed;
use super::super::value::Value;
use crate::node::{Message, Trouble};

/// Some messages of a batch, by their places in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::node::redis) struct Chosen(u128);

/// Messages behind these places go by themselves.
const PLACES: usize = u128::BITS as usize;

impl Chosen {
    fn add(&mut self, at: usize) {
        self.0 |= 1 << at;
    }

    pub(super) fn has(self, at: usize) -> bool {
        at < PLACES && self.0 >> at & 1 == 1
    }

    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One alone is no bundle.
    fn if_several(self) -> Self {
        if self.count() > 1 { self } else { Self::default() }
    }

    pub(super) fn of(self, messages: &[Message]) -> impl Iterator<Item = &Message> {
        messages.iter().enumerate().filter(move |(at, _)| self.has(*at)).map(|(_, message)| message)
    }
}

/// The bundles of a batch, in the order in which they are sent: before all other messages, which keep theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::node::redis) struct Bundles {
    pub(super) releases: Chosen,
    pub(super) acquires: Chosen,
    pub(super) renewals: Chosen,
}

/// What is known of the names with one sum: nothing, that a release of one goes ahead, that something else of one is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Release,
    More,
}

const SUMS: usize = 1_024;

impl Bundles {
    /// Messages about one name keep their order, so that a name is at most once in a bundle. That two names have the same
    /// sum costs no more than a command.
    ///
    /// A batch that is plain in part, or leaves tombstones, which are one attempt's whatever the name, is sent as it is.
    pub(in crate::node::redis) fn of(messages: &[Message]) -> Self {
        let [first, _, ..] = messages else { return Self::default() };
        let is_plain = first.request.is_plain();
        if messages.iter().any(|message| message.request.is_plain() != is_plain || leaves_tombstone(&message.request)) {
            return Self::default();
        }
        let Self { mut releases, mut acquires, mut renewals } = Self::default();
        let (mut kin, mut renewed) = (None, None);
        let mut seen = [Seen::Nothing; SUMS];
        for (at, message) in messages.iter().enumerate().take(PLACES) {
            let seen = &mut seen[sum(&message.key.text)];
            match &*message.request {
                Request::PlainRelease { .. } | Request::Release { parting: None, .. } if *seen == Seen::Nothing => {
                    releases.add(at);
                    *seen = Seen::Release;
                }
                Request::Acquire { ttl, holder, mode: Mode::EXCLUSIVE, .. }
                    if *seen != Seen::More && *kin.get_or_insert((ttl, holder)) == (ttl, holder) =>
                {
                    acquires.add(at);
                    *seen = Seen::More;
                }
                request
                    if *seen != Seen::More
                        && renewal(request).is_some_and(|terms| *renewed.get_or_insert(terms) == terms) =>
                {
                    renewals.add(at);
                    *seen = Seen::More;
                }
                _ => *seen = Seen::More,
            }
        }
        let (acquires, renewals) = (acquires.if_several(), renewals.if_several());
        // One that goes ahead of an acquire or a renewal has to, even alone.
        let is_first = !acquires.is_empty() || !renewals.is_empty();
        let releases = if is_first { releases } else { releases.if_several() };
        Self { releases, acquires, renewals }
    }

    pub(super) fn has(self, at: usize) -> bool {
        self.which(at).is_some()
    }

    /// In which of them this message is.
    pub(super) fn which(self, at: usize) -> Option<usize> {
        self.all().iter().position(|chosen| chosen.has(at))
    }

    /// Takes what comes back for each of them.
    pub(super) fn shares(
        self,
        messages: &[Message],
        values: &mut impl Iterator<Item = Value>,
    ) -> Result<[Option<Shares>; 3], Trouble> {
        let is_plain = messages.first().is_some_and(|message| message.request.is_plain());
        let Self { releases, acquires, renewals } = self;
        let mut shares = |chosen: Chosen, form| {
            (!chosen.is_empty()).then(|| Shares::of(values.next(), chosen.count(), form)).transpose()
        };
        Ok([
            shares(releases, if releases.count() == 1 { Form::Bare } else { Form::List })?,
            shares(acquires, Form::AfterClock)?,
            shares(renewals, if is_plain { Form::List } else { Form::AfterClock })?,
        ])
    }

    /// Whether this message goes in one command with others.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn is_shared(self, at: usize) -> bool {
        self.all().iter().any(|chosen| chosen.has(at) && chosen.count() > 1)
    }

    /// When this message is sent, among those of its batch.
    #[cfg(test)]
    pub(in crate::node::redis) fn turn(self, at: usize) -> (usize, usize) {
        (self.which(at).unwrap_or(self.all().len()), at)
    }

    /// How many messages there are in each.
    #[cfg(test)]
    pub(in crate::node::redis) fn counts(self) -> [usize; 3] {
        self.all().map(Chosen::count)
    }

    /// How many values answer so many messages.
    pub(super) fn values(self, messages: usize) -> usize {
        messages - self.all().map(|chosen| chosen.count().saturating_sub(1)).iter().sum::<usize>()
    }

    fn all(self) -> [Chosen; 3] {
        [self.releases, self.acquires, self.renewals]
    }
}

/// What all renewals of a bundle have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Terms<'a> {
    ttl: Ttl,
    repair: bool,
    holder: &'a str,
}

/// `None` if it is no renewal, or one of a lock with entries.
fn renewal(request: &Request) -> Option<Terms<'_>> {
    match request {
        Request::Renew { ttl, repair, holder, mode: Mode::EXCLUSIVE, .. } => {
            Some(Terms { ttl: *ttl, repair: *repair, holder })
        }
        Request::PlainExtend { ttl, .. } => Some(Terms { ttl: *ttl, repair: false, holder: "" }),
        _ => None,
    }
}

fn leaves_tombstone(request: &Request) -> bool {
    matches!(request, Request::Break { .. } | Request::Retire { .. } | Request::Release { tombstone: Some(_), .. })
}

/// A sum of a key, eight bytes at a time.
fn sum(key: &str) -> usize {
    let (words, rest) = key.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let mixed = words.fold(0, |sum: u64, word| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> 32) as usize % SUMS
}

/// In which form a bundle is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One message by itself, by its own answer.
    Bare,
    /// By a list of answers.
    List,
    /// By the same, behind the node's clock.
    AfterClock,
}

/// What comes back for a bundle.
pub(super) enum Shares {
    /// A value for each of its messages, and the node's clock where that is told.
    Each { at: Option<Value>, values: std::vec::IntoIter<Value> },
    /// One error for all of them.
    Failed(String),
}

impl Shares {
    /// Reads what answers so many messages.
    fn of(value: Option<Value>, count: usize, form: Form) -> Result<Self, Trouble> {
        let told = usize::from(form == Form::AfterClock);
        match value {
            Some(Value::Error(error)) => Ok(Self::Failed(error)),
            Some(value) if form == Form::Bare => Ok(Self::Each { at: None, values: vec![value].into_iter() }),
            Some(Value::Array(values)) if values.len() == told + count => {
                let mut values = values.into_iter();
                let at = if told > 0 { values.next() } else { None };
                Ok(Self::Each { at, values })
            }
            _ => Err(malformed("a bundle")),
        }
    }

    pub(super) fn next(&mut self) -> Option<Value> {
        match self {
            Self::Each { values, .. } => values.next(),
            Self::Failed(error) => Some(Value::Error(error.clone())),
        }
    }

    /// The node's clock, where it comes with votes.
    pub(super) fn at(&self) -> Option<&Value> {
        if let Self::Each { at, .. } = self { at.as_ref() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorlock_core::fence::Fence;
    use quorlock_core::mode::OwnerId;
    use quorlock_core::name::{LeaseId, Name};
    use quorlock_core::ticket::{Channel, Parting, Ticket, Waiter};

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

    const NONE: Vec<usize> = Vec::new();

    /// The places of releases, of acquires and of renewals that go together.
    fn chosen_of_all(messages: &[Message]) -> [Vec<usize>; 3] {
        Bundles::of(messages).all().map(|chosen| (0..messages.len()).filter(|at| chosen.has(*at)).collect())
    }

    /// The same, where there are no renewals.
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
        // The release of an attempt that was never heard of again must not pass its acquire.
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
        // Whoever lets go leaves before the next one renews; whoever renews does so before it lets go.
        let messages = [release("a"), renew("a"), renew("b"), release("b")];
        assert_eq!(chosen_of_all(&messages), [vec![0], NONE, vec![1, 2]]);
        let messages = [renew("a"), acquire("a"), acquire("b"), renew("b"), acquire("c"), renew("d")];
        assert_eq!(chosen_of_all(&messages), [NONE, vec![2, 4], vec![0, 5]]);
        assert_eq!(chosen_of_all(&[renew("a"), renew("a")]), [NONE, NONE, NONE]);
        // What goes by itself goes last.
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
        let names: Vec<String> = (0..PLACES + 2).map(|number| number.to_string()).collect();
        let messages: Vec<Message> = names.iter().map(|name| plain_release(name)).collect();
        let [releases, ..] = Bundles::of(&messages).counts();
        // All but those whose names have the sum of another.
        assert!((PLACES * 3 / 4..=PLACES).contains(&releases), "{releases}");
    }
}
