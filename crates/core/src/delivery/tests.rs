use super::*;
use crate::fence::Fence;
use crate::name::Channel;
use crate::request::{Ticket, Waiter};

const BATCH_MAX: usize = 128;
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

fn voted() -> Reply {
    Reply::Voted { vote: Vote::grant(Fence::new(1)), at_micros: None }
}

fn moved() -> Reply {
    Reply::Moved("MOVED".into())
}

fn delivery() -> Delivery<()> {
    Delivery::new(Rules::default())
}

/// Sends the next batch, and returns its requests.
fn send(delivery: &mut Delivery<()>) -> Vec<Request> {
    let mut requests = Vec::new();
    delivery.drain(BATCH_MAX, |request, ()| requests.push((*request).clone()));
    requests
}

/// Sends the next batch of releases, and returns each attempt and whether its release leaves a tombstone.
fn send_releases(delivery: &mut Delivery<()>) -> Vec<(LeaseId, bool)> {
    let tombstone = |request: &Request| match request {
        Request::Release { attempt, tombstone, .. } => (*attempt, tombstone.is_some()),
        other => panic!("not a release: {other:?}"),
    };
    send(delivery).iter().map(tombstone).collect()
}

#[test]
fn the_queue_keeps_one_renewal_of_each_lease_with_the_last_round() {
    let mut delivery = delivery();
    for (attempt, round) in [(1, 1), (2, 7), (1, 2), (1, 3)] {
        delivery.ask(renewal(attempt), round, ());
    }
    assert_eq!(send(&mut delivery).len(), 2);
    assert_eq!(delivery.replied(&[voted(), voted()]), [Some((id(1), 3, ())), Some((id(2), 7, ()))]);
    delivery.ask(renewal(1), 4, ());
    assert_eq!(send(&mut delivery).len(), 1, "the earlier renewal was sent");
}

#[test]
fn a_renewal_after_a_lost_connection_is_queued_again() {
    let mut delivery = delivery();
    delivery.ask(renewal(1), 1, ());
    delivery.ask(renewal(1), 2, ());
    assert_eq!(delivery.lost(), [(id(1), 2, ())]);
    delivery.connected(true);
    delivery.ask(renewal(1), 3, ());
    send(&mut delivery);
    assert_eq!(delivery.replied(&[voted()]), [Some((id(1), 3, ()))]);
}

#[test]
fn a_release_is_sent_after_its_acquire() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    assert_eq!(send(&mut delivery).len(), 1);
    delivery.release(release(1, None), NOW);
    assert!(matches!(send(&mut delivery)[..], [Request::Release { tombstone: None, .. }]));
    assert_eq!(delivery.replied(&[voted()]), [Some((id(1), 0, ()))], "the first reply is that of the acquire");
    assert_eq!(delivery.owed(), 1);
    delivery.replied(&[voted()]);
    assert_eq!(delivery.owed(), 0);
}

#[test]
fn a_queued_acquire_is_dropped_if_its_attempt_is_released() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    delivery.ask(acquire(2), 0, ());
    delivery.release(release(1, None), NOW);
    let requests = send(&mut delivery);
    assert!(matches!(requests[..], [Request::PlainAcquire { .. }, Request::Release { .. }]), "{requests:?}");
}

#[test]
fn a_release_that_is_sent_again_leaves_a_tombstone_only_if_a_request_may_still_arrive() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    send(&mut delivery);
    delivery.ask(acquire(2), 0, ());
    send(&mut delivery);
    delivery.replied(&[voted()]);
    delivery.release(release(1, None), NOW);
    delivery.release(release(2, None), NOW);
    send(&mut delivery);
    assert_eq!(delivery.lost(), [(id(2), 0, ())]);
    delivery.connected(false);
    assert_eq!(send_releases(&mut delivery), [(id(1), false), (id(2), true)]);
}

#[test]
fn a_yield_that_is_sent_again_does_not_restore_the_queue_position() {
    let mut delivery = delivery();
    delivery.release(release(1, Some(Parting::Yield(waiter()))), NOW);
    assert!(matches!(send(&mut delivery)[..], [Request::Release { parting: Some(Parting::Yield(_)), .. }]));
    delivery.lost();
    delivery.connected(true);
    assert!(matches!(send(&mut delivery)[..], [Request::Release { parting: None, tombstone: Some(_), .. }]));
}

#[test]
fn a_new_connection_sends_the_owed_releases_in_order_and_then_the_moved_requests() {
    let mut delivery = delivery();
    delivery.ask(acquire(9), 0, ());
    send(&mut delivery);
    assert_eq!(delivery.replied(&[moved()]), [None]);
    delivery.release(release(5, None), NOW);
    delivery.release(release(3, None), NOW);
    assert!(delivery.lost().is_empty(), "a moved request waits for one more connection");
    delivery.connected(true);
    let attempts: Vec<LeaseId> = send(&mut delivery).iter().map(Request::attempt).collect();
    assert_eq!(attempts, [id(5), id(3), id(9)]);
    let completions = delivery.replied(&[voted(), voted(), moved()]);
    assert_eq!(completions[2], Some((id(9), 0, ())), "a request is sent again only once");
}

#[test]
fn a_failed_release_is_sent_again_until_it_expires() {
    let mut delivery = delivery();
    delivery.release(release(1, None), NOW);
    for _ in 0..2 {
        assert_eq!(send(&mut delivery).len(), 1);
        assert_eq!(delivery.replied(&[Reply::Failed("ERR".into())]), [None]);
        delivery.forget_expired(NOW, false);
        delivery.retry_failed();
        assert_eq!(delivery.owed(), 1);
    }
    delivery.forget_expired(NOW + Duration::from_secs(60), false);
    assert_eq!((send(&mut delivery).len(), delivery.owed()), (0, 0));
}

#[test]
fn a_release_does_not_expire_while_a_request_of_its_attempt_may_arrive() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    send(&mut delivery);
    delivery.release(release(1, None), NOW);
    delivery.lost();
    let after_expiry = NOW + Duration::from_secs(60);
    delivery.forget_expired(after_expiry, false);
    assert_eq!(delivery.owed(), 1);
    delivery.forget_expired(after_expiry, true);
    assert_eq!(delivery.owed(), 0);
}

#[test]
fn a_moved_request_is_dropped_if_its_attempt_is_released() {
    let mut delivery = delivery();
    delivery.ask(acquire(1), 0, ());
    send(&mut delivery);
    assert_eq!(delivery.replied(&[moved()]), [None]);
    delivery.release(release(1, None), NOW);
    delivery.ask(acquire(2), 0, ());
    send(&mut delivery);
    delivery.release(release(2, None), NOW);
    send(&mut delivery);
    assert_eq!(delivery.replied(&[voted(), moved()]).len(), 2);
    delivery.replied(&[voted()]);
    assert_eq!(delivery.owed(), 0);
    delivery.lost();
    delivery.connected(true);
    assert_eq!(send(&mut delivery), []);
}
