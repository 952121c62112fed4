//! Waits in the queue, and leaves the queue.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::select;
use quorlock::{AcquireError, Client, HeldError, HeldMode, Progress};

use crate::conformance::backend::{
    Backend, LONG, SHORT, assert_held, assert_waiters, crash_after, enqueue, take_over, wait_for_holders,
    wait_for_waiters,
};

pub(crate) async fn a_wait_ends_at_its_deadline_and_names_the_holder(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("a").label("label of the holder").acquire().await.unwrap();
    wait_for_holders(&their_client, "a", 1).await;
    let lock = our_client.lock("a");
    assert_times_out(lock.acquire_within(SHORT)).await;
    let reentrant = our_client.reentrant("a");
    assert_times_out(reentrant.acquire_within(SHORT)).await;
    let rw = our_client.rw("a");
    assert_times_out(rw.read().acquire_within(SHORT)).await;
    assert_times_out(rw.write().acquire_within(SHORT)).await;
    assert_times_out(our_client.semaphore("a", 2).acquire_within(SHORT)).await;
    assert_times_out(our_client.all(["a", "b"]).acquire_within(SHORT)).await;
    assert_times_out(our_client.election("a").acquire_within(SHORT)).await;
    assert_waiters(&our_client, "a", 0).await;
    lease.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn a_waiter_gets_the_lock_after_the_release(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for name in ["a", "b", "c", "d"] {
        let lease = our_client.lock(name).acquire().await.unwrap();
        let (lock, fence) = (their_client.lock(name), lease.fence().unwrap());
        let waiter = enqueue(&our_client, name, 1, async move { lock.acquire().await }).await;
        lease.release().await.unwrap();
        let next_lease = waiter.await.unwrap();
        assert!(next_lease.fence().unwrap() > fence);
        next_lease.release().await.unwrap();
        // The waiter has left the queue of every node, including nodes outside its majority.
        assert_waiters(&their_client, name, 0).await;
        wait_for_holders(&their_client, name, 0).await;
    }
}

pub(crate) async fn a_waiter_that_gives_up_leaves_the_queue(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").acquire().await.unwrap();
    let (lock, rw, reentrant, semaphore) =
        (their_client.lock("a"), their_client.rw("a"), their_client.reentrant("a"), their_client.semaphore("a", 3));
    let waiters = [
        enqueue(&our_client, "a", 1, async move { lock.acquire().await }).await,
        enqueue(&our_client, "a", 2, async move { rw.read().acquire().await }).await,
        enqueue(&our_client, "a", 3, async move { reentrant.acquire().await }).await,
        enqueue(&our_client, "a", 4, async move { semaphore.acquire().await }).await,
    ];
    for (remaining, task) in (0..4).rev().zip(waiters) {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_waiters(&their_client, "a", remaining).await;
    }
    lease.extend().await.unwrap();
    lease.release().await.unwrap();
    assert!(our_client.lock("a").try_acquire().await.unwrap().is_some(), "a cancelled waiter is still in the queue");
}

pub(crate) async fn an_acquire_that_is_dropped_at_once_leaves_no_queue_position(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").acquire().await.unwrap();
    for _ in 0..5 {
        assert!(their_client.lock("a").acquire().now_or_never().is_none());
        assert!(their_client.rw("a").read().acquire().now_or_never().is_none());
    }
    assert_waiters(&their_client, "a", 0).await;
    lease.release().await.unwrap();
    wait_for_holders(&their_client, "a", 0).await;
    take_over(&their_client, "a").await.release().await.unwrap();
}

pub(crate) async fn position_holder_and_grant_are_reported_in_order(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.lock("a").label("label of the holder").acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 1).await;
    let first_waiter = our_client.lock("a").label("the first waiter");
    // A ticket is the client's estimate of the nodes' time. `their_client` has seen the first waiter on every node, so its
    // own ticket is later than the first one.
    let first_waiter = enqueue(&their_client, "a", 1, async move { first_waiter.acquire().await }).await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let lock = their_client.lock("a").observe({
        let reported = Arc::clone(&reported);
        move |progress| reported.lock().unwrap().push(progress.clone())
    });
    let second_waiter = enqueue(&our_client, "a", 2, async move { lock.acquire().await }).await;
    lease.release().await.unwrap();
    drop(first_waiter.await.unwrap());
    let lease = second_waiter.await.unwrap();

    let reported = reported.lock().unwrap();
    let Some((Progress::Granted { fence }, waits)) = reported.split_last() else {
        panic!("the grant is not the last report: {reported:?}")
    };
    assert_eq!(*fence, lease.fence().ok());
    let Some(Progress::Waiting(first_wait)) = waits.first() else {
        panic!("the wait is not the first report: {reported:?}")
    };
    assert_eq!(first_wait.holder.as_ref().unwrap().label, "label of the holder");
    assert_eq!((first_wait.position, first_wait.waiting), (Some(2), 2));
    assert!(waits.iter().all(|progress| matches!(progress, Progress::Waiting(_))), "{reported:?}");
}

pub(crate) async fn an_acquire_of_a_free_lock_reports_only_the_grant(backend: &Backend) {
    let client = backend.client().await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let lock = client.lock("a").observe({
        let reported = Arc::clone(&reported);
        move |progress| reported.lock().unwrap().push(progress.clone())
    });
    let lease = lock.acquire().await.unwrap();
    assert_eq!(*reported.lock().unwrap(), [Progress::Granted { fence: lease.fence().ok() }]);
}

pub(crate) async fn try_acquire_does_not_overtake_waiters(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for name in ["a", "b", "c", "d"] {
        let lease = our_client.lock(name).acquire().await.unwrap();
        let lock = their_client.lock(name);
        let waiter = enqueue(&our_client, name, 1, async move { lock.acquire().await }).await;
        lease.release().await.unwrap();
        // The waiter comes first, even if it has not noticed the release yet.
        assert_held(&our_client, name).await;
        assert!(our_client.rw(name).read().try_acquire().await.unwrap().is_none());
        assert!(our_client.reentrant(name).try_acquire().await.unwrap().is_none());
        waiter.await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_dead_waiter_is_overtaken_only_after_its_queue_position_has_expired(backend: &Backend) {
    let client = backend.client().await;
    let lease = client.lock("a").acquire().await.unwrap();
    wait_for_holders(&client, "a", 1).await;
    let wait = async |client: &Client| {
        // The ttl is short, because a node may hand the lock to this client: it cannot see that the client of an open
        // connection has crashed.
        let lock = client.lock("a").ttl(SHORT);
        let mut waiter = Box::pin(lock.acquire());
        drop(select(&mut waiter, Box::pin(wait_for_waiters(client, "a", 1))).await);
        // A crashed client does not leave the queue.
        std::mem::forget(waiter);
    };
    crash_after(backend.builder(), wait).await;
    lease.release().await.unwrap();
    let nodes_with_waiter = async || {
        let inspection = client.inspect("a").await.unwrap();
        inspection.nodes.iter().filter(|(_, report)| report.as_ref().is_ok_and(|report| report.waiting > 0)).count()
    };
    let (nodes, majority) = backend.quorum();
    let next_lease = loop {
        let next_lease = client.lock("a").try_acquire().await.unwrap();
        // A queue position that has expired does not come back. If a node has the position now, it had the position
        // before the attempt.
        assert!(
            next_lease.is_none() || nodes_with_waiter().await <= nodes - majority,
            "the dead waiter was overtaken before its queue position expired"
        );
        match next_lease {
            Some(next_lease) => break next_lease,
            None => tokio::time::sleep(SHORT / 10).await,
        }
    };
    next_lease.release().await.unwrap();
}

pub(crate) async fn an_inspection_shows_the_holder_and_the_number_of_waiters(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (nodes, _) = backend.quorum();
    let free_inspection = their_client.inspect("a").await.unwrap();
    assert_eq!(
        (free_inspection.name.as_str(), free_inspection.nodes.len(), free_inspection.waiting()),
        ("a", nodes, 0)
    );
    assert!(free_inspection.holder().is_none());

    let lease = our_client.lock("a").label("label of the holder").acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 1).await;
    let lock = our_client.lock("a");
    let waiter = enqueue(&our_client, "a", 1, async move { lock.acquire().await }).await;
    let inspection = their_client.inspect("a").await.unwrap();
    let (holder, fence) = inspection.holder().unwrap();
    assert_eq!((holder.unwrap().label.as_str(), Ok(fence)), ("label of the holder", lease.fence()));
    assert_eq!(inspection.waiting(), 1);
    for (node, report) in &inspection.nodes {
        let held = report.as_ref().unwrap().held.as_ref().unwrap();
        assert!(!node.is_empty() && held.remaining.is_some_and(|remaining| remaining > LONG / 2 && remaining <= LONG));
        assert_eq!((held.held_mode, held.holds), (HeldMode::Exclusive, 1));
    }
    waiter.abort();
    lease.release().await.unwrap();
}

pub(crate) async fn an_inspection_shows_the_kind_of_hold(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let rw = our_client.rw("shared");
    let _readers = (rw.read().acquire().await.unwrap(), rw.read().acquire().await.unwrap());
    let semaphore = our_client.semaphore("slots", 5);
    let _holders = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let reentrant = our_client.reentrant("reentrant");
    let _entries = (reentrant.acquire().await.unwrap(), reentrant.acquire().await.unwrap());
    for name in ["shared", "slots", "reentrant"] {
        wait_for_holders(&their_client, name, 2).await;
        let inspection = their_client.inspect(name).await.unwrap();
        for (_, report) in &inspection.nodes {
            let held_mode = report.as_ref().unwrap().held.as_ref().unwrap().held_mode;
            let is_expected = match name {
                "shared" => held_mode == HeldMode::Shared,
                "slots" => held_mode == HeldMode::Slots(5),
                _ => matches!(held_mode, HeldMode::Reentrant(_)),
            };
            assert!(is_expected, "{name}: {held_mode:?}");
        }
        let shown = format!("{inspection:?}");
        assert!(!shown.contains(&reentrant.owner().reveal()), "the inspection shows the owner, which is a secret");
    }
}

/// Checks that the acquire waits until its timeout, and then names the lock and the holder.
async fn assert_times_out<T: std::fmt::Debug>(acquire: impl Future<Output = Result<T, AcquireError>>) {
    let start = Instant::now();
    match acquire.await {
        Err(AcquireError::WaitTimeout(error)) => assert_names_holder(&error),
        other => panic!("the acquire did not time out: {other:?}"),
    }
    assert!(start.elapsed() >= SHORT, "the acquire did not wait until its timeout");
}

fn assert_names_holder(error: &HeldError) {
    assert_eq!((error.name.as_str(), error.holder.as_ref().unwrap().label.as_str()), ("a", "label of the holder"));
    let text = AcquireError::WaitTimeout(Box::new(error.clone())).to_string();
    assert!(text.contains("label of the holder") && text.contains("timed out"), "{text}");
}
