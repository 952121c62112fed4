//! Many readers or one writer.

use std::time::Instant;

use quorlock::{AcquireError, Client};

use crate::conformance::backend::{
    Backend, LONG, SHORT, crash_after, held_by, is_free, is_held, is_waited_for, queue, takes_over,
};

pub(crate) async fn many_read_or_one_writes(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let lock = ours.rw("a");
    let mut readers = vec![lock.read().acquire().await.unwrap(), lock.read().try_acquire().await.unwrap().unwrap()];
    readers.push(theirs.rw("a").read().try_acquire().await.unwrap().unwrap());
    readers.push(theirs.rw("a").read().acquire().await.unwrap());
    assert!(theirs.rw("a").write().try_acquire().await.unwrap().is_none(), "four are reading");
    for reader in readers {
        reader.release().await.unwrap();
    }
    held_by(&ours, "a", 0).await;

    let writer = theirs.rw("a").write().try_acquire().await.unwrap().unwrap();
    for client in [&ours, &theirs] {
        assert!(client.rw("a").read().try_acquire().await.unwrap().is_none(), "one is writing");
        assert!(client.rw("a").write().try_acquire().await.unwrap().is_none(), "one is writing");
    }
    writer.release().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_some());
}

pub(crate) async fn readers_and_exclusive_locks_exclude_each_other(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    for lock in [theirs.lock("a"), theirs.lock("a").plain()] {
        let reader = ours.rw("a").read().acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none(), "there is a reader");
        reader.release().await.unwrap();
        let lease = lock.acquire().await.unwrap();
        assert!(ours.rw("a").read().try_acquire().await.unwrap().is_none(), "there is an exclusive holder");
        lease.release().await.unwrap();
    }
}

pub(crate) async fn a_waiting_writer_is_not_overtaken_by_readers(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let first = ours.rw("a").read().acquire().await.unwrap();
    let (writer, reader) = (theirs.rw("a"), ours.rw("a"));
    let writing = queue(&ours, "a", 1, async move { writer.write().acquire().await }).await;
    assert!(ours.rw("a").read().try_acquire().await.unwrap().is_none(), "a writer waits");
    let reading = queue(&ours, "a", 2, async move { reader.read().acquire().await }).await;
    first.release().await.unwrap();
    // If the reader had been let in, it would stay, and the writer would wait forever.
    let written = writing.await.unwrap();
    assert!(!reading.is_finished());
    let fence = written.fence().unwrap();
    written.release().await.unwrap();
    assert!(reading.await.unwrap().fence().unwrap() > fence);
}

pub(crate) async fn readers_that_waited_enter_together(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let writer = ours.rw("a").write().acquire().await.unwrap();
    let mut reading = Vec::new();
    for (place, client) in (1..).zip([&ours, &theirs, &theirs]) {
        let reader = client.rw("a");
        reading.push(queue(&ours, "a", place, async move { reader.read().acquire().await }).await);
    }
    writer.release().await.unwrap();
    let mut readers = Vec::new();
    for reader in reading {
        readers.push(reader.await.unwrap());
    }
    for reader in &readers {
        reader.extend().await.unwrap();
    }
    is_held(&ours, "a").await;
}

pub(crate) async fn an_upgrade_is_refused_at_once(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let owner = ours.new_owner();
    let (lock, elsewhere) = (ours.rw("a").owned_by(owner), theirs.rw("a").owned_by(owner));
    let reader = lock.read().acquire().await.unwrap();
    // A node that does not have the share yet does not know its owner.
    held_by(&ours, "a", 1).await;
    for lock in [&lock, &elsewhere] {
        for told in [lock.write().try_acquire().await.unwrap_err(), lock.write().acquire().await.unwrap_err()] {
            assert!(matches!(&told, AcquireError::UpgradeUnsupported { name } if name.as_str() == "a"), "{told}");
        }
        assert!(matches!(lock.write().acquire_within(LONG).await, Err(AcquireError::UpgradeUnsupported { .. })));
        assert!(lock.read().try_acquire().await.unwrap().is_some(), "it may read twice");
    }
    reader.extend().await.unwrap();
    is_waited_for(&theirs, "a", 0).await;
    reader.release().await.unwrap();
    held_by(&theirs, "a", 0).await;
    lock.write().acquire().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_clone_has_another_owner(backend: &Backend) {
    let client = backend.client().await;
    let lock = client.rw("a");
    let reader = lock.read().acquire().await.unwrap();
    let other = lock.clone();
    assert!(other.write().try_acquire().await.unwrap().is_none(), "a clone has another owner");
    let writing = queue(&client, "a", 1, async move { other.write().acquire().await }).await;
    reader.release().await.unwrap();
    writing.await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_forgotten_share_ends_with_its_own_ttl(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let longer = ours.rw("a").read().acquire().await.unwrap();
    let before = Instant::now();
    let read = async |client: &Client| client.rw("a").ttl(SHORT).read().acquire().await.unwrap();
    crash_after(backend.builder(), read).await;
    // The longer share would have lasted much longer.
    longer.release().await.unwrap();
    let _writer = theirs.rw("a").write().acquire().await.unwrap();
    assert!(before.elapsed() >= SHORT, "the share was not in the way");
}

pub(crate) async fn a_forgotten_share_does_not_affect_the_others(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let reader = ours.rw("a").read().acquire().await.unwrap();
    let read = async |client: &Client| client.rw("a").ttl(SHORT).read().acquire().await.unwrap();
    crash_after(backend.builder(), read).await;
    held_by(&ours, "a", 1).await;
    assert!(theirs.rw("a").write().try_acquire().await.unwrap().is_none(), "one is still reading");
    reader.extend().await.unwrap();
    reader.release().await.unwrap();
    is_free(&theirs, "a").await;
}

pub(crate) async fn fences_grow_from_readers_to_writers_and_back(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let mut last = None;
    for _ in 0..3 {
        let mut readers = Vec::new();
        for lock in [ours.rw("a"), theirs.rw("a"), ours.rw("a")] {
            readers.push(lock.read().try_acquire().await.unwrap().unwrap());
        }
        let fences: Vec<_> = readers.iter().map(|reader| reader.fence().unwrap()).collect();
        assert!(fences.iter().all(|fence| Some(*fence) > last), "a reader is above all earlier writers");
        drop(readers);
        let writer = takes_over(&theirs, "a").await;
        let fence = writer.fence().unwrap();
        assert!(fences.iter().all(|reader| *reader < fence), "a writer is above all earlier readers");
        last = Some(fence);
        writer.release().await.unwrap();
    }
}

pub(crate) async fn an_owner_that_reads_reads_again_at_once_with_the_same_fence(backend: &Backend) {
    let (ours, theirs) = backend.rivals().await;
    let (reader, party) = (ours.rw("a").owned_by(ours.new_owner()), theirs.rw("a"));
    let first = reader.read().acquire().await.unwrap();
    let other = party.read().acquire().await.unwrap();
    held_by(&ours, "a", 2).await;
    let writer = theirs.rw("a");
    let writing = queue(&ours, "a", 1, async move { writer.write().acquire().await }).await;
    let again = reader.read().try_acquire().await.unwrap().expect("it reads already");
    assert_eq!(again.fence().unwrap(), first.fence().unwrap());
    assert_ne!(again.fence().unwrap(), other.fence().unwrap());
    assert!(party.read().try_acquire().await.unwrap().is_none(), "a party without an owner waits behind the writer");
    first.release().await.unwrap();
    other.release().await.unwrap();
    again.extend().await.unwrap();
    assert!(!writing.is_finished());
    let fence = again.fence().unwrap();
    again.release().await.unwrap();
    assert!(writing.await.unwrap().fence().unwrap() > fence);
}
