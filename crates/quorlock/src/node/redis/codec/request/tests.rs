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
    /// Returns a key that sorts the messages of a batch in the order in which they are sent.
    pub(in crate::node::redis) fn turn(&self, index: usize) -> (usize, usize) {
        (self.kind(index).map_or(BundleKind::ALL.len(), |kind| kind as usize), index)
    }

    /// Returns the number of messages in each bundle.
    pub(in crate::node::redis) fn counts(&self) -> [usize; 3] {
        BundleKind::ALL.map(|kind| self.count(kind))
    }
}

const NO_POSITIONS: Vec<usize> = Vec::new();

/// Returns the positions of the bundled releases, acquires and renewals.
fn all_bundled(messages: &[Message]) -> [Vec<usize>; 3] {
    let bundles = Bundles::of(messages);
    BundleKind::ALL.map(|kind| (0..messages.len()).filter(|at| bundles.kind(*at) == Some(kind)).collect())
}

/// Returns the positions of the bundled releases and acquires. Asserts that no renewal is bundled.
fn bundled_releases_and_acquires(messages: &[Message]) -> [Vec<usize>; 2] {
    let [releases, acquires, renewals] = all_bundled(messages);
    assert_eq!(renewals, NO_POSITIONS);
    [releases, acquires]
}

#[test]
fn similar_requests_are_bundled() {
    let messages = [acquire("a"), release("b"), acquire("c"), release("d"), acquire("b")];
    assert_eq!(bundled_releases_and_acquires(&messages), [vec![1, 3], vec![0, 2, 4]]);
    let messages = [plain_release("a"), plain_acquire("b"), plain_release("c"), plain_acquire("a")];
    assert_eq!(bundled_releases_and_acquires(&messages), [vec![0, 2], NO_POSITIONS]);
}

#[test]
fn a_single_release_is_a_bundle_only_if_it_must_precede_another_bundle() {
    assert_eq!(bundled_releases_and_acquires(&[]), [NO_POSITIONS, NO_POSITIONS]);
    assert_eq!(bundled_releases_and_acquires(&[acquire("a")]), [NO_POSITIONS, NO_POSITIONS]);
    assert_eq!(bundled_releases_and_acquires(&[acquire("a"), release("b")]), [NO_POSITIONS, NO_POSITIONS]);
    assert_eq!(bundled_releases_and_acquires(&[release("a"), acquire("a"), acquire("b")]), [vec![0], vec![1, 2]]);
}

#[test]
fn a_bundle_of_one_release_shares_no_command() {
    let bundles = Bundles::of(&[release("a"), acquire("a"), acquire("b"), acquire("b")]);
    assert_eq!([0, 1, 2, 3].map(|at| bundles.shares_command(at)), [false, true, true, false]);
}

#[test]
fn messages_about_one_name_keep_their_order() {
    // The release of an attempt without a reply must not overtake its acquire.
    let messages = [plain_acquire("a"), plain_release("a"), plain_release("b"), plain_release("c")];
    assert_eq!(bundled_releases_and_acquires(&messages), [vec![2, 3], NO_POSITIONS]);
    let messages = [acquire("a"), release("a"), release("b"), release("c"), acquire("a"), acquire("b")];
    assert_eq!(bundled_releases_and_acquires(&messages), [vec![2, 3], vec![0, 5]]);
    assert_eq!(bundled_releases_and_acquires(&[release("a"), release("a"), release("b")]), [vec![0, 2], NO_POSITIONS]);
}

#[test]
fn only_acquires_with_the_same_terms_are_bundled() {
    let owner = OwnerId::from_bits(1);
    let messages = [
        acquire("a"),
        acquire_as("b", ttl(2), "me", Mode::EXCLUSIVE),
        acquire_as("c", ttl(1), "you", Mode::EXCLUSIVE),
        acquire_as("d", ttl(1), "me", Mode::Shared { owner, reenters: false }),
        acquire_as("e", ttl(1), "me", Mode::Exclusive { writer: Some(owner) }),
        acquire("f"),
    ];
    assert_eq!(bundled_releases_and_acquires(&messages), [NO_POSITIONS, vec![0, 5]]);
}

#[test]
fn only_renewals_with_the_same_terms_are_bundled() {
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
    assert_eq!(all_bundled(&messages), [NO_POSITIONS, NO_POSITIONS, vec![0, 6]]);
    let messages = [plain_extend("a", 1), plain_extend("b", 2), plain_acquire("c"), plain_extend("d", 1)];
    assert_eq!(all_bundled(&messages), [NO_POSITIONS, NO_POSITIONS, vec![0, 3]]);
}

#[test]
fn a_bundled_renewal_keeps_its_order_among_the_messages_about_its_name() {
    // A release is sent before the next holder's renewal, and a renewal before its own release.
    let messages = [release("a"), renew("a"), renew("b"), release("b")];
    assert_eq!(all_bundled(&messages), [vec![0], NO_POSITIONS, vec![1, 2]]);
    let messages = [renew("a"), acquire("a"), acquire("b"), renew("b"), acquire("c"), renew("d")];
    assert_eq!(all_bundled(&messages), [NO_POSITIONS, vec![2, 4], vec![0, 5]]);
    assert_eq!(all_bundled(&[renew("a"), renew("a")]), [NO_POSITIONS, NO_POSITIONS, NO_POSITIONS]);
    // Messages outside of bundles are sent last.
    let messages = [acquire("a"), renew("a"), renew("b"), renew("c")];
    assert_eq!(all_bundled(&messages), [NO_POSITIONS, NO_POSITIONS, vec![2, 3]]);
}

#[test]
fn releases_with_a_queue_position_or_a_tombstone_are_not_bundled() {
    let waiter = Waiter { ticket: Ticket { at: 1, id: 2 }, channel: Channel(3), shared: false };
    let parting = Some(Parting::Leave(waiter));
    let leave = message("c", Request::Release { attempt: ATTEMPT, tombstone: None, parting });
    let messages = [release("a"), leave, release("b")];
    assert_eq!(bundled_releases_and_acquires(&messages), [vec![0, 2], NO_POSITIONS]);
    let with_tombstone = message("c", Request::Release { attempt: ATTEMPT, tombstone: Some(1), parting: None });
    for other in [
        with_tombstone,
        plain_release("c"),
        message("c", Request::Retire { owner: OwnerId::from_bits(1), tombstone: 1 }),
    ] {
        assert_eq!(
            bundled_releases_and_acquires(&[release("a"), release("b"), other, acquire("d"), acquire("e")]),
            [NO_POSITIONS, NO_POSITIONS]
        );
    }
}

#[test]
fn a_bundle_has_a_limited_size() {
    let names: Vec<String> = (0..BUNDLED_MAX + 2).map(|number| number.to_string()).collect();
    let messages: Vec<Message> = names.iter().map(|name| plain_release(name)).collect();
    assert_eq!(Bundles::of(&messages).counts(), [BUNDLED_MAX, 0, 0]);
}
