//! Sets of names. A set is locked completely or not at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use quorlock::{AcquireError, Break, ConfigError, FenceError, LostError, NameError, Target};

use crate::conformance::backend::{
    Backend, LONG, SHORT, assert_free, assert_held, assert_waiters, enqueue, take_over, wait_for_holders,
};

pub(crate) async fn a_set_sorts_its_names_and_locks_each_name_once(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let leases = our_client.all(["c", "a", "b", "a", "c"]).acquire().await.unwrap();
    let names: Vec<&str> = leases.iter().map(|lease| lease.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    for name in names {
        wait_for_holders(&our_client, name, 1).await;
        assert_held(&their_client, name).await;
    }
    assert_free(&their_client, "d").await;
}

pub(crate) async fn a_set_has_one_fence_for_each_name(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let earlier_lease = their_client.lock("b").acquire().await.unwrap();
    let earlier_fence = earlier_lease.fence().unwrap();
    earlier_lease.release().await.unwrap();
    let leases = our_client.all(["b", "a"]).acquire().await.unwrap();
    for name in ["a", "b"] {
        let lease = leases.get(name).unwrap();
        assert_eq!(leases.fence(name), lease.fence());
        lease.extend().await.unwrap();
    }
    assert!(leases.fence("b").unwrap() > earlier_fence);
    assert_eq!(leases.fence("c"), Err(FenceError::NotHeld));
    let fences = ["a", "b"].map(|name| leases.fence(name).unwrap());
    leases.release().await.unwrap();
    let later_leases = their_client.all(["a", "b"]).acquire().await.unwrap();
    assert!(later_leases.fence("a").unwrap() > fences[0] && later_leases.fence("b").unwrap() > fences[1]);
}

pub(crate) async fn a_set_that_gives_up_releases_its_names(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("b").label("label of the holder").acquire().await.unwrap();
    let set = our_client.all(["a", "b", "c"]);
    assert!(set.try_acquire().await.unwrap().is_none());
    match set.acquire_within(SHORT).await {
        Err(AcquireError::WaitTimeout(error)) => {
            assert_eq!((error.name.as_str(), error.holder.unwrap().label.as_str()), ("b", "label of the holder"));
        }
        other => panic!("one name of the set is held: {other:?}"),
    }
    for name in ["a", "c"] {
        wait_for_holders(&our_client, name, 0).await;
        assert_free(&their_client, name).await;
    }
    lease.extend().await.unwrap();
}

pub(crate) async fn a_set_keeps_its_first_names_while_it_waits_for_the_next_name(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("b").acquire().await.unwrap();
    let set = our_client.all(["a", "b", "c"]);
    let waiter = enqueue(&their_client, "b", 1, async move { set.acquire().await }).await;
    assert_held(&their_client, "a").await;
    assert_free(&their_client, "c").await;
    lease.release().await.unwrap();
    let leases = waiter.await.unwrap();
    for name in ["a", "b", "c"] {
        assert_held(&their_client, name).await;
    }
    leases.release().await.unwrap();
}

pub(crate) async fn a_cancelled_set_releases_all_names(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = their_client.lock("b").acquire().await.unwrap();
    let set = our_client.all(["a", "b"]);
    let waiter = enqueue(&their_client, "b", 1, async move { set.acquire().await }).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    assert_waiters(&our_client, "b", 0).await;
    take_over(&their_client, "a").await.release().await.unwrap();
    lease.release().await.unwrap();
    take_over(&their_client, "b").await.release().await.unwrap();
    let _ = our_client.all(["a", "b"]).acquire().now_or_never();
    take_over(&their_client, "a").await.release().await.unwrap();
    take_over(&their_client, "b").await.release().await.unwrap();
}

pub(crate) async fn overlapping_sets_do_not_deadlock(backend: &Backend) {
    let sets = [vec!["a", "b", "c"], vec!["c", "b"], vec!["b", "a"], vec!["c", "a"]];
    let held_names: Arc<BTreeMap<&str, AtomicBool>> =
        Arc::new(["a", "b", "c"].map(|name| (name, AtomicBool::default())).into());
    let fences = Arc::new(Mutex::new(BTreeMap::new()));
    let mut tasks = Vec::new();
    for set in sets {
        let (client, held_names, fences) = (backend.client().await, Arc::clone(&held_names), Arc::clone(&fences));
        tasks.push(tokio::spawn(async move {
            for _ in 0..8 {
                let leases = client.all(&set).acquire().await.unwrap();
                for name in &set {
                    assert!(!held_names[name].swap(true, Ordering::SeqCst), "two clients hold {name}");
                    let fence = leases.fence(name).unwrap();
                    assert!(
                        fences.lock().unwrap().insert(*name, fence) < Some(fence),
                        "the fence of {name} did not grow"
                    );
                }
                tokio::task::yield_now().await;
                for name in &set {
                    held_names[name].store(false, Ordering::SeqCst);
                }
                leases.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

pub(crate) async fn an_empty_set_or_an_invalid_name_is_refused(backend: &Backend) {
    let client = backend.client().await;
    for (names, error) in [(&[][..], ConfigError::NoNames), (&["a", ""], ConfigError::Name(NameError::Empty))] {
        let set = client.all(names);
        let error = AcquireError::Config(error);
        assert_eq!(set.try_acquire().await.unwrap_err(), error);
        assert_eq!(set.acquire().await.unwrap_err(), error);
        assert_eq!(set.acquire_within(SHORT).await.unwrap_err(), error);
    }
    assert_eq!(backend.lock_keys(), [""; 0]);
}

pub(crate) async fn dropping_a_set_releases_all_names(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    drop(our_client.all(["a", "b", "c"]).acquire().await.unwrap());
    for name in ["a", "b", "c"] {
        take_over(&their_client, name).await.release().await.unwrap();
    }
}

pub(crate) async fn a_set_is_detached_completely_or_released(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for broken_name in ["a", "b", "c"] {
        let leases = our_client.all(["a", "b", "c"]).ttl(LONG).acquire().await.unwrap();
        let fence = leases.fence(broken_name).unwrap();
        their_client.break_lock(broken_name, Break::new(Target::Fence(fence), "a test").now()).await.unwrap();
        leases.get(broken_name).unwrap().lost().await;
        assert_eq!(leases.detach().unwrap_err(), LostError::Broken);
        for name in ["a", "b", "c"] {
            take_over(&their_client, name).await.release().await.unwrap();
        }
    }
    let detached = our_client.all(["a", "b"]).acquire().await.unwrap().detach().unwrap();
    assert_eq!(detached.iter().map(|lease| lease.name().as_str()).collect::<Vec<_>>(), ["a", "b"]);
    for lease in &detached {
        assert_held(&their_client, lease.name().as_str()).await;
        our_client.release(lease).await.unwrap();
    }
}
