use super::*;
use crate::name::Channel;
use crate::request::{Ticket, Waiter};

const MOST: usize = 128;
const NOW: Moment = Moment::from_nanos(0);

fn id(bits: u128) -> LeaseId {
    LeaseId::from_bits(bits)
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap()
}

fn acquire(attempt: u128) -> Arc<Request> {
    Arc::new(Request::PlainAcquire { attempt: id(attempt), ttl: ttl() })
}

fn renewal(attempt: u128) -> Arc<Request> {
    Arc::new(Request::PlainExtend { attempt: id(attempt), ttl: ttl() })
}

fn release(attempt: u128, parting: Option<Parting>) -> Release<()> {
    Release { attempt: id(attempt), ttl: ttl(), is_plain: false, parting, is_foreign: false, context: () }
}

fn waiter() -> Waiter {
    Waiter { ticket: Ticket { at: 1, id: 2 }, channel: Channel(3), shared: false }
}

fn delivery() -> Delivery<()> {
    Delivery::new(Rules::default())
}

/// The requests that leave next.
fn sent(delivery: &mut Delivery<()>) -> Vec<Request> {
    let mut sent = Vec::new();
    delivery.drain(MOST, |request, ()| sent.push((*request).clone()));
    sent
}

fn tombstones(delivery: &mut Delivery<()>) -> Vec<(LeaseId, bool)> {
    let tombstone = |request: &Request| match request {
        Request::Release { attempt, tombstone, .. } => (*attempt, tombstone.is_some()),
        other => panic!("{other:?}"),
    };
    sent(delivery).iter().map(tombstone).collect()
}

#[test]
fn only_one_renewal_of_a_lease_waits_and_it_counts_for_the_last_round() {
    let mut delivery = delivery();
    for (attempt, round) in [(1, 1), (2, 7), (1, 2), (1, 3)] {
        delivery.ask(renewal(attempt), round, ());
    }
    assert_eq!(sent(&mut delivery).len(), 2);
    assert_eq!(delivery.replied([Fate::Done; 2]), [Some((id(1), 3, ())), Some((id(2), 7, ()))]);
    delivery.ask(renewal(1), 4, ());
    assert_eq!(sent(&mut delivery).len(), 1, "the one before has left");
}

#[test]
fn a_renewal_that_was_never_sent_does_not_replace_the_next() {
    let mut delivery = delivery();
    delivery.ask(renewal(1), 1, ());
    delivery.ask(renewal(1), 2, ());
    assert_eq!(delivery.lost(), [(id(1), 2, ())]);
    delivery.connected(true);
    delivery.ask(renewal(1), 3, ());
    sent(&mut delivery);
    assert_eq!(delivery.replied([Fate::Done]), [Some((id(1), 3, ()))]);
}

#[test]
fn a_release_follows_its_acquire() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    assert_eq!(sent(&mut delivery).len(), 1);
    delivery.release(release(1, None), NOW);
    assert!(matches!(sent(&mut delivery)[..], [Request::Release { tombstone: None, .. }]));
    assert_eq!(delivery.replied([Fate::Done]), [Some((id(1), 0, ()))], "the acquire comes first");
    assert_eq!(delivery.owed(), 1);
    delivery.replied([Fate::Done]);
    assert_eq!(delivery.owed(), 0);
}

#[test]
fn an_acquire_that_was_never_sent_is_not_sent_after_its_release() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    delivery.ask(acquire(2), 0, ());
    delivery.release(release(1, None), NOW);
    let sent = sent(&mut delivery);
    assert!(matches!(sent[..], [Request::PlainAcquire { .. }, Request::Release { .. }]), "{sent:?}");
}

#[test]
fn a_release_survives_its_connection_and_leaves_a_tombstone_only_if_a_request_is_astray() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    sent(&mut delivery);
    delivery.ask(acquire(2), 0, ());
    sent(&mut delivery);
    delivery.replied([Fate::Done]);
    delivery.release(release(1, None), NOW);
    delivery.release(release(2, None), NOW);
    sent(&mut delivery);
    assert_eq!(delivery.lost(), [(id(2), 0, ())]);
    delivery.connected(false);
    assert_eq!(tombstones(&mut delivery), [(id(1), false), (id(2), true)]);
}

#[test]
fn a_yield_that_is_sent_again_gives_up_the_place() {
    let mut delivery = delivery();
    delivery.release(release(1, Some(Parting::Yield(waiter()))), NOW);
    assert!(matches!(sent(&mut delivery)[..], [Request::Release { parting: Some(Parting::Yield(_)), .. }]));
    delivery.lost();
    delivery.connected(true);
    assert!(matches!(sent(&mut delivery)[..], [Request::Release { parting: None, tombstone: Some(_), .. }]));
}

#[test]
fn releases_are_sent_again_in_their_order_and_before_moved_requests() {
    let mut delivery = delivery();
    delivery.ask(acquire(9), 0, ());
    sent(&mut delivery);
    assert_eq!(delivery.replied([Fate::Moved]), [None]);
    delivery.release(release(5, None), NOW);
    delivery.release(release(3, None), NOW);
    assert!(delivery.lost().is_empty(), "a moved request waits for one more connection");
    delivery.connected(true);
    let attempts: Vec<LeaseId> = sent(&mut delivery).iter().map(Request::attempt).collect();
    assert_eq!(attempts, [id(5), id(3), id(9)]);
    let told = delivery.replied([Fate::Done, Fate::Done, Fate::Moved]);
    assert_eq!(told[2], Some((id(9), 0, ())), "it moves only once");
}

#[test]
fn a_release_that_fails_is_sent_again_until_it_has_lapsed() {
    let mut delivery = delivery();
    delivery.release(release(1, None), NOW);
    for _ in 0..2 {
        assert_eq!(sent(&mut delivery).len(), 1);
        assert_eq!(delivery.replied([Fate::Failed]), [None]);
        delivery.forget_lapsed(NOW, false);
        delivery.retry_failed();
        assert_eq!(delivery.owed(), 1);
    }
    delivery.forget_lapsed(NOW + Duration::from_secs(60), false);
    assert_eq!((sent(&mut delivery).len(), delivery.owed()), (0, 0));
}

#[test]
fn while_a_request_may_still_arrive_its_release_does_not_lapse_before_the_client_closes() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    sent(&mut delivery);
    delivery.release(release(1, None), NOW);
    delivery.lost();
    let late = NOW + Duration::from_secs(60);
    delivery.forget_lapsed(late, false);
    assert_eq!(delivery.owed(), 1);
    delivery.forget_lapsed(late, true);
    assert_eq!(delivery.owed(), 0);
}

#[test]
fn a_request_whose_name_has_moved_is_not_sent_again_after_its_release() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    sent(&mut delivery);
    assert_eq!(delivery.replied([Fate::Moved]), [None]);
    delivery.release(release(1, None), NOW);
    delivery.ask(acquire(2), 0, ());
    sent(&mut delivery);
    delivery.release(release(2, None), NOW);
    sent(&mut delivery);
    assert_eq!(delivery.replied([Fate::Done, Fate::Moved]).len(), 2);
    delivery.replied([Fate::Done]);
    assert_eq!(delivery.owed(), 0);
    delivery.lost();
    delivery.connected(true);
    assert_eq!(sent(&mut delivery), []);
}
