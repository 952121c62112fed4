//! Semaphores: a limited number of clients hold the lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use quorlock::{AcquireError, Client, ConfigError, Lease, PERMITS_MAX};

use crate::conformance::backend::{
    Backend, LONG, SHORT, assert_free, assert_held, crash_after, enqueue, wait_for_holders,
};

pub(crate) async fn a_semaphore_has_at_most_as_many_holders_as_permits(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut leases = Vec::new();
    for client in [&our_client, &their_client, &our_client] {
        leases.push(client.semaphore("a", 3).acquire().await.unwrap());
        wait_for_holders(client, "a", leases.len() as u32).await;
    }
    assert_eq!(slots(&leases), BTreeSet::from([0, 1, 2]));
    for client in [&our_client, &their_client] {
        assert!(
            client.semaphore("a", 3).try_acquire().await.unwrap().is_none(),
            "a fourth client got one of three permits"
        );
    }
    let released_lease = leases.remove(1);
    let slot = released_lease.slot();
    released_lease.release().await.unwrap();
    wait_for_holders(&our_client, "a", 2).await;
    let next_lease = our_client.semaphore("a", 3).try_acquire().await.unwrap().unwrap();
    assert_eq!(next_lease.slot(), slot);
    assert!(
        their_client.semaphore("a", 3).try_acquire().await.unwrap().is_none(),
        "a fourth client got one of three permits"
    );
    for lease in leases.iter().chain([&next_lease]) {
        lease.extend().await.unwrap();
    }
}

pub(crate) async fn a_released_slot_goes_to_the_next_waiter(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let semaphore = our_client.semaphore("a", 2);
    let (first_lease, second_lease) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    wait_for_holders(&our_client, "a", 2).await;
    let waiting_semaphore = their_client.semaphore("a", 2);
    let waiter = enqueue(&our_client, "a", 1, async move { waiting_semaphore.acquire().await }).await;
    assert!(
        our_client.semaphore("a", 2).try_acquire().await.unwrap().is_none(),
        "a client overtook the waiter, or got a third permit"
    );
    let slot = first_lease.slot();
    first_lease.release().await.unwrap();
    assert_eq!(waiter.await.unwrap().slot(), slot);
    second_lease.extend().await.unwrap();
}

pub(crate) async fn each_slot_has_its_own_fence(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut leases = Vec::new();
    for client in [&our_client, &their_client, &our_client, &their_client] {
        leases.push(client.semaphore("a", 4).acquire().await.unwrap());
    }
    assert!(leases.is_sorted_by(|earlier, later| earlier.fence().unwrap() < later.fence().unwrap()), "{leases:?}");
}

pub(crate) async fn a_semaphore_with_another_number_of_permits_is_refused(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lease = our_client.semaphore("a", 17).acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 1).await;
    let mismatched = their_client.semaphore("a", 23);
    let errors = [
        mismatched.try_acquire().await.unwrap_err(),
        mismatched.acquire().await.unwrap_err(),
        mismatched.acquire_within(LONG).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(&error, AcquireError::SlotsMismatch { requested: 23, in_use: 17, .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("17") && text.contains("23") && text.contains("\"a\""), "{text}");
    }
    lease.release().await.unwrap();
    wait_for_holders(&our_client, "a", 0).await;
    let lease = mismatched.try_acquire().await.unwrap().unwrap();
    let error = our_client.semaphore("a", 17).try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::SlotsMismatch { requested: 17, in_use: 23, .. }), "{error:?}");
    lease.extend().await.unwrap();
}

pub(crate) async fn a_number_of_permits_out_of_bounds_is_refused(backend: &Backend) {
    let client = backend.client().await;
    for permits in [0, PERMITS_MAX + 1, u32::MAX] {
        let semaphore = client.semaphore("a", permits);
        for error in [semaphore.try_acquire().await.unwrap_err(), semaphore.acquire().await.unwrap_err()] {
            assert!(matches!(&error, AcquireError::Config(ConfigError::Setting { .. })), "{error:?}");
            assert!(error.to_string().contains(&permits.to_string()), "{error}");
        }
    }
    assert_eq!(backend.lock_keys(), [""; 0]);
    for permits in [1, PERMITS_MAX] {
        let lease = client.semaphore("a", permits).try_acquire().await.unwrap().unwrap();
        assert!(lease.slot() < Some(permits));
        lease.release().await.unwrap();
    }
}

pub(crate) async fn a_semaphore_with_one_permit_is_an_exclusive_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut last_fence = None;
    for (client, other_client) in
        [(&our_client, &their_client), (&their_client, &our_client), (&our_client, &their_client)]
    {
        let lease = client.semaphore("a", 1).acquire().await.unwrap();
        assert_eq!(lease.slot(), Some(0));
        assert!(last_fence.replace(lease.fence().unwrap()) < lease.fence().ok());
        assert!(other_client.semaphore("a", 1).try_acquire().await.unwrap().is_none());
        assert!(client.semaphore("a", 1).try_acquire().await.unwrap().is_none());
        assert_held(other_client, "a").await;
        lease.release().await.unwrap();
        assert_free(other_client, "a").await;
    }
}

pub(crate) async fn all_waiters_get_a_slot(backend: &Backend) {
    const PERMITS: u32 = 2;
    let holders: Arc<[AtomicU32; PERMITS as usize]> = Arc::default();
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let (client, holders) = (backend.client().await, Arc::clone(&holders));
        tasks.push(tokio::spawn(async move {
            for _ in 0..6 {
                let lease = client.semaphore("a", PERMITS).acquire().await.unwrap();
                let slot = &holders[lease.slot().unwrap() as usize];
                assert_eq!(slot.fetch_add(1, Ordering::SeqCst), 0, "two clients have the same slot");
                tokio::task::yield_now().await;
                assert_eq!(slot.fetch_sub(1, Ordering::SeqCst), 1, "two clients have the same slot");
                // About half of the leases are released, and the others are dropped.
                if lease.fence().unwrap().get() % 2 == 0 {
                    lease.release().await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

pub(crate) async fn a_crashed_holder_frees_its_slot_and_no_other(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let semaphore = our_client.semaphore("a", 2);
    let lease = semaphore.acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 1).await;
    let hold = async |client: &Client| client.semaphore("a", 2).ttl(SHORT).acquire().await.unwrap();
    crash_after(backend.builder(), hold).await;
    let next_lease = their_client.semaphore("a", 2).acquire().await.unwrap();
    assert_ne!(next_lease.slot(), lease.slot());
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "a third client got one of two permits");
    lease.extend().await.unwrap();
}

fn slots(leases: &[Lease]) -> BTreeSet<u32> {
    leases.iter().map(|lease| lease.slot().unwrap()).collect()
}
