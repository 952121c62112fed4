//! Read-write locks: many readers or one writer hold the lock.

use std::time::Instant;

use quorlock::{AcquireError, Client};

use crate::conformance::backend::{
    Backend, LONG, SHORT, assert_free, assert_held, assert_waiters, crash_after, enqueue, take_over, wait_for_holders,
};

pub(crate) async fn many_readers_or_one_writer_hold_the_lock(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let lock = our_client.rw("a");
    let mut readers = vec![lock.read().acquire().await.unwrap(), lock.read().try_acquire().await.unwrap().unwrap()];
    readers.push(their_client.rw("a").read().try_acquire().await.unwrap().unwrap());
    readers.push(their_client.rw("a").read().acquire().await.unwrap());
    assert!(
        their_client.rw("a").write().try_acquire().await.unwrap().is_none(),
        "a writer got the lock while four readers held it"
    );
    for reader in readers {
        reader.release().await.unwrap();
    }
    wait_for_holders(&our_client, "a", 0).await;

    let writer = their_client.rw("a").write().try_acquire().await.unwrap().unwrap();
    for client in [&our_client, &their_client] {
        assert!(
            client.rw("a").read().try_acquire().await.unwrap().is_none(),
            "a client got the lock while a writer held it"
        );
        assert!(
            client.rw("a").write().try_acquire().await.unwrap().is_none(),
            "a client got the lock while a writer held it"
        );
    }
    writer.release().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_some());
}

pub(crate) async fn readers_and_exclusive_locks_exclude_each_other(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    for lock in [their_client.lock("a"), their_client.lock("a").plain()] {
        let reader = our_client.rw("a").read().acquire().await.unwrap();
        assert!(
            lock.try_acquire().await.unwrap().is_none(),
            "an exclusive lock was granted while a reader held the name"
        );
        reader.release().await.unwrap();
        let lease = lock.acquire().await.unwrap();
        assert!(
            our_client.rw("a").read().try_acquire().await.unwrap().is_none(),
            "a reader got the lock while an exclusive holder had it"
        );
        lease.release().await.unwrap();
    }
}

pub(crate) async fn a_waiting_writer_is_not_overtaken_by_readers(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let first_reader = our_client.rw("a").read().acquire().await.unwrap();
    let (writer, reader) = (their_client.rw("a"), our_client.rw("a"));
    let write_task = enqueue(&our_client, "a", 1, async move { writer.write().acquire().await }).await;
    assert!(our_client.rw("a").read().try_acquire().await.unwrap().is_none(), "a reader overtook a waiting writer");
    let read_task = enqueue(&our_client, "a", 2, async move { reader.read().acquire().await }).await;
    first_reader.release().await.unwrap();
    // If the second reader had overtaken the writer, it would hold the lock, and the writer would wait forever.
    let write_lease = write_task.await.unwrap();
    assert!(!read_task.is_finished());
    let fence = write_lease.fence().unwrap();
    write_lease.release().await.unwrap();
    assert!(read_task.await.unwrap().fence().unwrap() > fence);
}

pub(crate) async fn waiting_readers_get_the_lock_together(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let writer = our_client.rw("a").write().acquire().await.unwrap();
    let mut read_tasks = Vec::new();
    for (position, client) in (1..).zip([&our_client, &their_client, &their_client]) {
        let reader = client.rw("a");
        read_tasks.push(enqueue(&our_client, "a", position, async move { reader.read().acquire().await }).await);
    }
    writer.release().await.unwrap();
    let mut readers = Vec::new();
    for task in read_tasks {
        readers.push(task.await.unwrap());
    }
    for reader in &readers {
        reader.extend().await.unwrap();
    }
    assert_held(&our_client, "a").await;
}

pub(crate) async fn an_upgrade_from_read_to_write_is_refused_at_once(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let owner = our_client.new_owner();
    let (lock, same_owner) = (our_client.rw("a").owned_by(owner), their_client.rw("a").owned_by(owner));
    let reader = lock.read().acquire().await.unwrap();
    // A node that does not have the read lease yet does not know that the owner is a reader.
    wait_for_holders(&our_client, "a", 1).await;
    for lock in [&lock, &same_owner] {
        for error in [lock.write().try_acquire().await.unwrap_err(), lock.write().acquire().await.unwrap_err()] {
            assert!(matches!(&error, AcquireError::UpgradeUnsupported { name } if name.as_str() == "a"), "{error}");
        }
        assert!(matches!(lock.write().acquire_within(LONG).await, Err(AcquireError::UpgradeUnsupported { .. })));
        assert!(lock.read().try_acquire().await.unwrap().is_some(), "the owner could not read twice");
    }
    reader.extend().await.unwrap();
    assert_waiters(&their_client, "a", 0).await;
    reader.release().await.unwrap();
    wait_for_holders(&their_client, "a", 0).await;
    lock.write().acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_clone_of_a_read_write_lock_has_another_owner(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.rw("a");
    let reader = lock.read().acquire().await.unwrap();
    let clone = lock.clone();
    assert!(clone.write().try_acquire().await.unwrap().is_none(), "the owner of a clone got the write lock");
    let write_task = enqueue(&client, "a", 1, async move { clone.write().acquire().await }).await;
    reader.release().await.unwrap();
    write_task.await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_read_lease_of_a_crashed_client_ends_with_its_own_ttl(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let long_lease = our_client.rw("a").read().acquire().await.unwrap();
    let start = Instant::now();
    let read = async |client: &Client| client.rw("a").ttl(SHORT).read().acquire().await.unwrap();
    crash_after(backend.builder(), read).await;
    // After the release of the long lease, only the lease of the crashed client blocks the lock.
    long_lease.release().await.unwrap();
    let _writer = their_client.rw("a").write().acquire().await.unwrap();
    assert!(start.elapsed() >= SHORT, "the read lease of the crashed client did not block the lock");
}

pub(crate) async fn a_read_lease_of_a_crashed_client_does_not_affect_the_other_readers(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let reader = our_client.rw("a").read().acquire().await.unwrap();
    let read = async |client: &Client| client.rw("a").ttl(SHORT).read().acquire().await.unwrap();
    crash_after(backend.builder(), read).await;
    wait_for_holders(&our_client, "a", 1).await;
    assert!(
        their_client.rw("a").write().try_acquire().await.unwrap().is_none(),
        "a writer got the lock while a reader held it"
    );
    reader.extend().await.unwrap();
    reader.release().await.unwrap();
    assert_free(&their_client, "a").await;
}

pub(crate) async fn fences_grow_from_readers_to_writers_and_back(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let mut last_writer_fence = None;
    for _ in 0..3 {
        let mut readers = Vec::new();
        for lock in [our_client.rw("a"), their_client.rw("a"), our_client.rw("a")] {
            readers.push(lock.read().try_acquire().await.unwrap().unwrap());
        }
        let fences: Vec<_> = readers.iter().map(|reader| reader.fence().unwrap()).collect();
        assert!(
            fences.iter().all(|fence| Some(*fence) > last_writer_fence),
            "the fence of a reader is not above the fences of earlier writers"
        );
        drop(readers);
        let writer = take_over(&their_client, "a").await;
        let fence = writer.fence().unwrap();
        assert!(
            fences.iter().all(|reader| *reader < fence),
            "the fence of a writer is not above the fences of earlier readers"
        );
        last_writer_fence = Some(fence);
        writer.release().await.unwrap();
    }
}

pub(crate) async fn an_owner_that_reads_already_reads_again_at_once_with_the_same_fence(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    let (owned_lock, other_lock) = (our_client.rw("a").owned_by(our_client.new_owner()), their_client.rw("a"));
    let first_lease = owned_lock.read().acquire().await.unwrap();
    let other_lease = other_lock.read().acquire().await.unwrap();
    wait_for_holders(&our_client, "a", 2).await;
    let writer = their_client.rw("a");
    let write_task = enqueue(&our_client, "a", 1, async move { writer.write().acquire().await }).await;
    let second_lease = owned_lock.read().try_acquire().await.unwrap().expect("the owner reads already");
    assert_eq!(second_lease.fence().unwrap(), first_lease.fence().unwrap());
    assert_ne!(second_lease.fence().unwrap(), other_lease.fence().unwrap());
    assert!(
        other_lock.read().try_acquire().await.unwrap().is_none(),
        "a reader with another owner overtook the waiting writer"
    );
    first_lease.release().await.unwrap();
    other_lease.release().await.unwrap();
    second_lease.extend().await.unwrap();
    assert!(!write_task.is_finished());
    let fence = second_lease.fence().unwrap();
    second_lease.release().await.unwrap();
    assert!(write_task.await.unwrap().fence().unwrap() > fence);
}
