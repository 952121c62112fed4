//! Waiting in the queue, and leaving it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::select;
use quorlock::{AcquireError, Client, HeldError, Period, Progress};

use crate::conformance::backend::{
    Backend, LONG, SHORT, crash_after, held_by, is_held, is_waited_for, queue, queued_again, takes_over,
};

pub(crate) async fn a_wait_ends_at_its_deadline_with_the_holder_named(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = theirs.lock("a").label("the one").acquire().await.unwrap();
    held_by(&theirs, "a", 1).await;
    let lock = ours.lock("a");
    timed_out(lock.acquire_within(SHORT)).await;
    let reentrant = ours.reentrant("a");
    timed_out(reentrant.acquire_within(SHORT)).await;
    let rw = ours.rw("a");
    timed_out(rw.read().acquire_within(SHORT)).await;
    timed_out(rw.write().acquire_within(SHORT)).await;
    timed_out(ours.semaphore("a", 2).acquire_within(SHORT)).await;
    timed_out(ours.all(["a", "b"]).acquire_within(SHORT)).await;
    timed_out(ours.election("a").acquire_within(SHORT)).await;
    is_waited_for(&ours, "a", 0).await;
    lease.ensure(Duration::ZERO).unwrap();
}

pub(crate) async fn a_waiter_is_served_after_the_release(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for name in ["a", "b", "c", "d"] {
        let lease = ours.lock(name).acquire().await.unwrap();
        let (lock, fence) = (theirs.lock(name), lease.fence().unwrap());
        let waiting = queue(&ours, name, 1, async move { lock.acquire().await }).await;
        lease.release().await.unwrap();
        let next = waiting.await.unwrap();
        assert!(next.fence().unwrap() > fence);
        next.release().await.unwrap();
        // Nothing of the waiter is left, not even on nodes outside its majority.
        is_waited_for(&theirs, name, 0).await;
        held_by(&theirs, name, 0).await;
    }
}

pub(crate) async fn a_waiter_that_gives_up_leaves_the_queue(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap();
    let (lock, rw, reentrant, semaphore) =
        (theirs.lock("a"), theirs.rw("a"), theirs.reentrant("a"), theirs.semaphore("a", 3));
    let waiting = [
        queue(&ours, "a", 1, async move { lock.acquire().await }).await,
        queue(&ours, "a", 2, async move { rw.read().acquire().await }).await,
        queue(&ours, "a", 3, async move { reentrant.acquire().await }).await,
        queue(&ours, "a", 4, async move { semaphore.acquire().await }).await,
    ];
    for (left, task) in (0..4).rev().zip(waiting) {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        is_waited_for(&theirs, "a", left).await;
    }
    lease.extend().await.unwrap();
    lease.release().await.unwrap();
    assert!(ours.lock("a").try_acquire().await.unwrap().is_some(), "no waiter is in the queue");
}

pub(crate) async fn a_future_dropped_at_once_leaves_nothing(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").acquire().await.unwrap();
    for _ in 0..5 {
        assert!(theirs.lock("a").acquire().now_or_never().is_none());
        assert!(theirs.rw("a").read().acquire().now_or_never().is_none());
    }
    is_waited_for(&theirs, "a", 0).await;
    lease.release().await.unwrap();
    held_by(&theirs, "a", 0).await;
    takes_over(&theirs, "a").await.release().await.unwrap();
}

pub(crate) async fn position_holder_and_grant_are_reported_in_order(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lease = ours.lock("a").label("the one").acquire().await.unwrap();
    held_by(&ours, "a", 1).await;
    let ahead = ours.lock("a").label("the next");
    // Tickets come from the nodes' clocks: a client that has seen another in the queue on every node draws a later
    // ticket.
    let ahead = queue(&theirs, "a", 1, async move { ahead.acquire().await }).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let lock = theirs.lock("a").observe({
        let told = Arc::clone(&told);
        move |progress| told.lock().unwrap().push(progress.clone())
    });
    let behind = queue(&ours, "a", 2, async move { lock.acquire().await }).await;
    lease.release().await.unwrap();
    drop(ahead.await.unwrap());
    let lease = behind.await.unwrap();

    let told = told.lock().unwrap();
    let Some((Progress::Granted { fence }, waits)) = told.split_last() else { panic!("it was granted: {told:?}") };
    assert_eq!(*fence, lease.fence().ok());
    let Some(Progress::Waiting(first)) = waits.first() else { panic!("it had to wait: {told:?}") };
    assert_eq!(first.holder.as_ref().unwrap().label, "the one");
    assert_eq!((first.place, first.waiting), (Some(2), 2));
    assert!(waits.iter().all(|progress| matches!(progress, Progress::Waiting(_))), "{told:?}");
}

pub(crate) async fn a_free_lock_is_reported_once(backend: &Backend) {
    let client = backend.client().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let lock = client.lock("a").observe({
        let told = Arc::clone(&told);
        move |progress| told.lock().unwrap().push(progress.clone())
    });
    let lease = lock.acquire().await.unwrap();
    assert_eq!(*told.lock().unwrap(), [Progress::Granted { fence: lease.fence().ok() }]);
}

pub(crate) async fn a_try_does_not_overtake(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for name in ["a", "b", "c", "d"] {
        let lease = ours.lock(name).acquire().await.unwrap();
        let lock = theirs.lock(name);
        let waiting = queue(&ours, name, 1, async move { lock.acquire().await }).await;
        lease.release().await.unwrap();
        // The waiter comes first, even if it has not noticed the release yet.
        is_held(&ours, name).await;
        assert!(ours.rw(name).read().try_acquire().await.unwrap().is_none());
        assert!(ours.reentrant(name).try_acquire().await.unwrap().is_none());
        waiting.await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn a_dead_waiter_blocks_only_for_its_queue_position_or_one_ttl(backend: &Backend) {
    let client = backend.client().await;
    let lease = client.lock("a").acquire().await.unwrap();
    held_by(&client, "a", 1).await;
    let wait = async |client: &Client| {
        // A node may hand it the lock, because it cannot see that no process uses the connection any more.
        let lock = client.lock("a").ttl(SHORT);
        let mut waiting = Box::pin(lock.acquire());
        drop(select(&mut waiting, Box::pin(queued_again(client, "a", 1))).await);
        // It does not leave the queue.
        std::mem::forget(waiting);
    };
    crash_after(backend.builder(), wait).await;
    lease.release().await.unwrap();
    let in_the_way = async || {
        let found = client.inspect("a").await.unwrap();
        found.nodes.iter().filter(|(_, said)| said.as_ref().is_ok_and(|report| report.waiting > 0)).count()
    };
    let (nodes, majority) = backend.quorum();
    let next = loop {
        let next = client.lock("a").try_acquire().await.unwrap();
        // A queue position that is gone does not come back: if it is there now, it was there before.
        assert!(next.is_none() || in_the_way().await <= nodes - majority, "it was overtaken");
        match next {
            Some(next) => break next,
            None => tokio::time::sleep(SHORT / 10).await,
        }
    };
    next.release().await.unwrap();
}

pub(crate) async fn an_inspection_shows_the_holder_and_the_number_of_waiters(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (nodes, _) = backend.quorum();
    let nothing = theirs.inspect("a").await.unwrap();
    assert_eq!((nothing.name.as_str(), nothing.nodes.len(), nothing.waiting()), ("a", nodes, 0));
    assert!(nothing.holder().is_none());

    let lease = ours.lock("a").label("the one").acquire().await.unwrap();
    held_by(&ours, "a", 1).await;
    let lock = ours.lock("a");
    let waiting = queue(&ours, "a", 1, async move { lock.acquire().await }).await;
    let found = theirs.inspect("a").await.unwrap();
    let (holder, fence) = found.holder().unwrap();
    assert_eq!((holder.unwrap().label.as_str(), Ok(fence)), ("the one", lease.fence()));
    assert_eq!(found.waiting(), 1);
    for (node, said) in &found.nodes {
        let held = said.as_ref().unwrap().held.as_ref().unwrap();
        assert!(!node.is_empty() && held.remaining.is_some_and(|left| left > LONG / 2 && left <= LONG));
        assert_eq!((held.period, held.holds), (Period::Exclusive, 1));
    }
    waiting.abort();
    lease.release().await.unwrap();
}

pub(crate) async fn an_inspection_shows_the_kind_of_hold(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let rw = ours.rw("shared");
    let _readers = (rw.read().acquire().await.unwrap(), rw.read().acquire().await.unwrap());
    let semaphore = ours.semaphore("slots", 5);
    let _holders = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let reentrant = ours.reentrant("reentrant");
    let _entries = (reentrant.acquire().await.unwrap(), reentrant.acquire().await.unwrap());
    for name in ["shared", "slots", "reentrant"] {
        held_by(&theirs, name, 2).await;
        let found = theirs.inspect(name).await.unwrap();
        for (_, said) in &found.nodes {
            let period = said.as_ref().unwrap().held.as_ref().unwrap().period;
            let fits = match name {
                "shared" => period == Period::Shared,
                "slots" => period == Period::Slots(5),
                _ => matches!(period, Period::Reentrant(_)),
            };
            assert!(fits, "{name}: {period:?}");
        }
        let shown = format!("{found:?}");
        assert!(!shown.contains(&reentrant.owner().reveal()), "an owner is a secret");
    }
}

/// Waits until the timeout, and checks the error.
async fn timed_out<T: std::fmt::Debug>(acquire: impl Future<Output = Result<T, AcquireError>>) {
    let before = Instant::now();
    match acquire.await {
        Err(AcquireError::WaitTimeout(error)) => named(&error),
        other => panic!("it should be held: {other:?}"),
    }
    assert!(before.elapsed() >= SHORT, "it did not wait");
}

fn named(error: &HeldError) {
    assert_eq!((error.name.as_str(), error.holder.as_ref().unwrap().label.as_str()), ("a", "the one"));
    let text = AcquireError::WaitTimeout(Box::new(error.clone())).to_string();
    assert!(text.contains("the one") && text.contains("timed out"), "{text}");
}
