//! Cancellation: an acquire or lease that is dropped at any point leaves no vote behind.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::common::Cluster;
use crate::common::long_leases::{CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, expect_soon};
use quorlock::{AcquireError, FenceError, Lease, Lock, LostError};
use quorlock_testkit::eventually;
use tokio::task::yield_now;

/// How far an acquire had come when it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It was never polled.
    Unpolled,
    /// Its requests were queued, in flight or answered.
    Asking,
    /// It was won, but the lease was not taken.
    Won,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls once, then lets all other tasks of this thread take `steps` steps, then drops.
///
/// The runtime has one thread, so nothing moves between two steps, and counting through them visits every state of the
/// links.
async fn drop_after_steps(acquire: impl Future<Output = Result<Lease, AcquireError>>, steps: usize) -> Phase {
    let Some(steps) = steps.checked_sub(1) else { return Phase::Unpolled };
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut acquire = pin!(acquire);
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "decided without asking");
    for _ in 0..steps {
        yield_now().await;
        if woken.0.load(Ordering::SeqCst) {
            return Phase::Won;
        }
    }
    Phase::Asking
}

/// Checks that a new client gets the lock with its first request.
async fn is_free_for_anyone(cluster: &ProxiedCluster, name: &str) {
    let fresh = connect_to_all(cluster.direct()).await;
    let lease = fresh.lock(name).try_acquire().await.expect("all nodes can vote");
    lease.expect("the lock is free").release().await.expect("all nodes can acknowledge");
}

#[tokio::test]
async fn an_acquire_dropped_at_every_step_leaves_no_key() {
    const DROPS: usize = 500;
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct()).await;
    let (mut unpolled, mut asking, mut won) = (0, 0, 0);
    let mut steps = 0;
    while unpolled + asking + won < DROPS {
        let phase = drop_after_steps(client.lock("job").acquire(), steps).await;
        steps += 1;
        match phase {
            Phase::Unpolled => unpolled += 1,
            Phase::Asking => asking += 1,
            Phase::Won => {
                won += 1;
                steps = 0;
            }
        }
    }
    println!("dropped: {unpolled} unpolled, {asking} asking, {won} won and not taken");
    assert!(won > 0 && asking > won, "not every step was visited");
    cluster.close_and_check(client).await;
    is_free_for_anyone(&cluster, "job").await;
}

#[tokio::test]
async fn an_acquire_dropped_while_the_lock_is_held_changes_nothing() {
    let cluster = ProxiedCluster::start(5).await;
    let holder = connect_to_all(cluster.direct()).await;
    let held = holder.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:job", &[0, 1, 2, 3, 4]).await;
    let (mut asking, mut waiting) = (0, 0);
    let mut steps = 1_usize;
    while waiting < 10 {
        let client = connect_to_all(cluster.direct()).await;
        let told = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&told);
        let lock = client.lock("job").observe(move |_| waits.store(true, Ordering::Release));
        {
            let mut acquire = pin!(lock.acquire());
            assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            for _ in 0..steps {
                yield_now().await;
            }
            // The observer is called when the acquire is polled.
            assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            *(if told.load(Ordering::Acquire) { &mut waiting } else { &mut asking }) += 1;
            steps += steps.div_ceil(8);
        }
        drop(lock);
        client.close(CLOSE_TIMEOUT).await.unwrap();
        for server in &cluster.servers {
            assert_eq!(server.command(&["GET", "quorlock:job"]).as_str(), Some(held.id().reveal().as_str()));
            assert_eq!(server.command(&["EXISTS", "quorlock~queue:quorlock:job"]).as_int(), Some(0), "a place is left");
        }
    }
    println!("dropped: {asking} asking, {waiting} waiting");
    assert!(asking > 0, "not every phase was visited");
    held.release().await.unwrap();
    cluster.close_and_check(holder).await;
    is_free_for_anyone(&cluster, "job").await;
}

/// Durations from zero to a few milliseconds, most of them short: a round takes less than one.
struct Durations(u64);

impl Iterator for Durations {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 40) as f64 / f64::from(1 << 24);
        Some(Duration::from_secs_f64(share.powi(3) * 0.006))
    }
}

/// The timers of the runtime have a resolution of a millisecond.
async fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        yield_now().await;
    }
}

/// Acquires `turns` times, and drops the future after a random time. Returns how often the lock was won before that.
async fn drop_at_random_times(lock: Lock, turns: usize, seed: u64) -> usize {
    let mut won = 0;
    for (turn, patience) in Durations(seed).take(turns).enumerate() {
        let lease = if turn % 2 == 0 {
            tokio::select! {
                lease = lock.acquire() => Some(lease.expect("acquire retries until a majority votes")),
                () = spin(patience) => None,
            }
        } else {
            tokio::time::timeout(patience, lock.acquire()).await.ok().map(|lease| lease.expect("acquire retries until a majority votes"))
        };
        won += usize::from(lease.is_some());
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_random_times_leave_no_key() {
    const TURNS: usize = 60;
    let cluster = ProxiedCluster::start(5).await;
    let proxy = &cluster.proxies[4];
    let (mut won, mut dropped) = (0, 0);
    for fault in ["none", "slow", "cut", "lossy"] {
        let clients = [connect_to_all(cluster.builder()).await, connect_to_all(cluster.builder()).await];
        match fault {
            "slow" => proxy.delay(Duration::from_millis(2)),
            "lossy" => proxy.drop_replies(true),
            _ => {}
        }
        // Two tasks compete for each name.
        let names = (0..6).map(|task| (task, format!("job {}", task % 3)));
        let turning: Vec<_> = names
            .map(|(task, name)| {
                tokio::spawn(drop_at_random_times(clients[task / 3].lock(&name), TURNS, 1 + task as u64))
            })
            .collect();
        for task in turning {
            if fault == "cut" {
                proxy.cut();
            }
            let in_vain = task.await.unwrap();
            won += in_vain;
            dropped += TURNS - in_vain;
        }
        proxy.refuse(true);
        proxy.cut();
        proxy.drop_replies(false);
        proxy.delay(Duration::ZERO);
        proxy.refuse(false);
        for client in clients {
            client.close(CLOSE_TIMEOUT).await.expect("all nodes are reachable again and accept the releases");
        }
        assert_eq!(cluster.lock_keys_by_node().concat(), Vec::<String>::new(), "left behind with network fault {fault}");
        for name in ["job 0", "job 1", "job 2"] {
            is_free_for_anyone(&cluster, name).await;
        }
    }
    println!("dropped: {dropped} before the decision, {won} after the lock was won");
    assert!(dropped > 0 && won > 0);
}

/// Polls a future once, and drops it.
fn begin(work: impl Future) {
    let _ = pin!(work).poll(&mut Context::from_waker(Waker::noop()));
}

/// Every way for a holder to end a lease, other than to await its release.
async fn leave(lock: &Lock, way: usize) {
    let lease = expect_soon(lock.acquire()).await.expect("the previous holder has released the lock");
    match way {
        0 => drop(lease),
        1 => {
            let panicked = tokio::spawn(async move {
                let _lease = lease;
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(panicked.await.is_err_and(|error| error.is_panic()));
        }
        2 => begin(lease.release()),
        3 => drop(lease.release()),
        4 => {
            begin(lease.extend());
            lease.ensure(Duration::from_secs(1)).expect("dropping the future of extend does not end the lease");
        }
        5 => {
            let aborted = tokio::spawn(async move {
                let _lease = lease;
                std::future::pending::<()>().await;
            });
            yield_now().await;
            aborted.abort();
            assert!(aborted.await.is_err_and(|error| error.is_cancelled()));
        }
        _ => unreachable!("{way}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_released_however_its_holder_ends() {
    let cluster = ProxiedCluster::start(5).await;
    let clients = [connect_to_all(cluster.direct()).await, connect_to_all(cluster.direct()).await];
    for turn in 0..60 {
        leave(&clients[turn % 2].lock("job"), turn % 6).await;
    }
    for client in clients {
        client.close(CLOSE_TIMEOUT).await.unwrap();
    }
    assert_eq!(cluster.lock_keys_by_node().concat(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_panics_or_is_dropped_releases_the_lock() {
    use futures_util::FutureExt;

    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct()).await;
    let lock = client.lock("job");
    for _ in 0..10 {
        let panics = lock.run(async |_lease| -> () { std::panic::resume_unwind(Box::new("on purpose")) });
        expect_soon(AssertUnwindSafe(panics).catch_unwind()).await.unwrap_err();
        let begun = Arc::new(tokio::sync::Notify::new());
        let endless = lock.run(async |_lease| {
            begun.notify_one();
            std::future::pending::<()>().await;
        });
        tokio::select! {
            _ = endless => unreachable!("it has no end"),
            () = expect_soon(begun.notified()) => {}
        }
    }
    drop(lock);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_when_their_client_is_closed() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct()).await;
    let mut leases = Vec::new();
    for number in 0..10 {
        leases.push(client.lock(format!("job {number}")).acquire().await.unwrap());
    }
    std::mem::forget(client.lock("forgotten").acquire().await.unwrap());
    cluster.wait_for_key_on("quorlock:forgotten", &[0, 1, 2, 3, 4]).await;
    let lost = leases[0].lost();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_unlocked().await;
    assert_eq!(expect_soon(lost).await, LostError::Closed);
    for lease in &leases {
        assert_eq!(lease.fence(), Err(FenceError::Lost(LostError::Closed)));
        assert_eq!(lease.validity(), Duration::ZERO);
        assert!(expect_soon(lease.extend()).await.is_err());
    }

    // Requests of the closed client must not touch the leases of later clients.
    let next = connect_to_all(cluster.direct()).await;
    let held = next.lock("job 0").try_acquire().await.unwrap().expect("the lock is free");
    cluster.wait_for_key_on("quorlock:job 0", &[0, 1, 2, 3, 4]).await;
    assert!(expect_soon(leases.remove(0).release()).await.is_err());
    drop(leases);
    held.extend().await.unwrap();
    cluster.wait_for_key_on("quorlock:job 0", &[0, 1, 2, 3, 4]).await;
    held.release().await.unwrap();
    cluster.close_and_check(next).await;
}

/// Waits for a held lock in a task of its own.
async fn waiter(lock: Lock) -> tokio::task::JoinHandle<Result<(), AcquireError>> {
    let (begin, begun) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut acquire = pin!(lock.acquire());
        begin.send(()).expect("the receiver waits");
        let lease = acquire.as_mut().await?;
        lease.ensure(Duration::from_secs(1)).expect("the lease of a live lock is valid");
        Ok(())
    });
    begun.await.expect("the task starts");
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_survives_the_drop_of_its_client_but_not_a_close() {
    let cluster = ProxiedCluster::start(5).await;
    let holder = connect_to_all(cluster.direct()).await;
    let held = holder.lock("job").acquire().await.unwrap();

    let client = connect_to_all(cluster.direct()).await;
    let waiting = waiter(client.lock("job")).await;
    client.close(CLOSE_TIMEOUT).await.unwrap();
    assert_eq!(expect_soon(waiting).await.unwrap(), Err(AcquireError::Closed));

    let client = connect_to_all(cluster.direct()).await;
    let waiting = waiter(client.lock("job")).await;
    drop(client);
    held.release().await.unwrap();
    expect_soon(waiting).await.unwrap().expect("a lock keeps its client's connections alive");
    cluster.wait_until_unlocked().await;
    is_free_for_anyone(&cluster, "job").await;
}

/// Runs the work on a runtime that ends with it.
fn on_another_runtime<T: Send + 'static>(work: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("the system can start a runtime");
    std::thread::spawn(move || runtime.block_on(work())).join().expect("the work does not panic")
}

/// A batch waits for other callers, but not when a lease is dropped: the runtime may have no turn left after that.
#[tokio::test]
async fn a_dropped_lease_is_released_without_a_turn_of_the_runtime() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct()).await;
    let names: Vec<String> = (0..8).map(|at| format!("job/{at}")).collect();
    let locks: Vec<Lock> = names.iter().map(|name| client.lock(name)).collect();
    // The first requests are sent alone, and the rest after them as one batch.
    let mut leases = futures_util::future::join_all(locks.iter().map(Lock::acquire)).await;
    for name in &names {
        cluster.wait_for_key_on(&format!("quorlock:{name}"), &[0, 1, 2]).await;
    }
    drop(leases.pop());
    // From here on nothing is awaited, and there is only one thread.
    let left = |standing: Vec<Vec<String>>| standing.iter().all(|keys| keys.len() == leases.len());
    eventually("its votes to be taken back", || left(cluster.lock_keys_by_node()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_runtime_nothing_hangs_and_leases_expire() {
    let cluster = Cluster::start(3).await;
    let here = connect_to_all(cluster.builder()).await;
    let builder = cluster.builder();
    let (client, lease, mut waiting) = on_another_runtime(async move || {
        let client = connect_to_all(builder).await;
        let lease = client.lock("job").acquire().await.unwrap();
        let lock = client.lock("job");
        let mut waiting = Box::pin(async move { lock.acquire().await });
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (client, lease, waiting)
    });
    assert!(expect_soon(waiting.as_mut()).await.is_err(), "no runtime is left to send requests");
    assert!(expect_soon(client.lock("other").try_acquire()).await.is_err());
    expect_soon(lease.lost()).await;
    assert!(lease.fence().is_err());
    assert!(expect_soon(lease.extend()).await.is_err());
    assert!(expect_soon(lease.release()).await.is_err());
    drop((waiting, client));
    drop(expect_soon(here.lock("job").acquire()).await.expect("the lease has expired"));
}
