//! Cancellation: an acquire or a lease that is dropped at any point leaves no vote on any node.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use crate::common::Cluster;
use crate::common::long_timeouts::{CLOSE_TIMEOUT, ProxiedCluster, connect_to_all, expect_soon};
use quorlock::{AcquireError, FenceError, Lease, Lock, LostError};
use quorlock_testkit::{eventually, eventually_async};
use tokio::task::yield_now;

/// The phase of an acquire in which it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The acquire was never polled.
    Unpolled,
    /// The requests were queued, in flight or answered.
    Requested,
    /// The acquire had succeeded, but its lease was not returned.
    Acquired,
}

/// A waker that records whether it was called.
#[derive(Default)]
struct RecordingWaker(AtomicBool);

impl Wake for RecordingWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls the acquire once, lets the other tasks of this thread run for `steps` steps, and drops the acquire. Zero steps
/// drop it without a poll. Returns the phase in which the acquire was dropped.
///
/// The runtime has one thread, so the number of steps determines the state of the links. If a test tries every number
/// of steps, it drops the acquire in every state.
async fn drop_after_steps(acquire: impl Future<Output = Result<Lease, AcquireError>>, steps: usize) -> Phase {
    let Some(steps) = steps.checked_sub(1) else { return Phase::Unpolled };
    let recorder = Arc::new(RecordingWaker::default());
    let waker = Waker::from(Arc::clone(&recorder));
    let mut acquire = pin!(acquire);
    assert!(
        acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(),
        "the acquire ended before any request was sent"
    );
    for _ in 0..steps {
        yield_now().await;
        if recorder.0.load(Ordering::SeqCst) {
            return Phase::Acquired;
        }
    }
    Phase::Requested
}

/// Checks that a new client gets the lock with one attempt.
async fn assert_free(cluster: &ProxiedCluster, name: &str) {
    let new_client = connect_to_all(cluster.direct_builder()).await;
    let lease = new_client.lock(name).try_acquire().await.expect("all nodes can vote");
    lease.expect("the lock is free").release().await.expect("all nodes can acknowledge");
}

#[tokio::test]
async fn an_acquire_dropped_at_every_step_leaves_no_key() {
    const DROPS: usize = 500;
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let (mut unpolled, mut requested, mut acquired) = (0, 0, 0);
    let mut steps = 0;
    while unpolled + requested + acquired < DROPS {
        let phase = drop_after_steps(client.lock("job").acquire(), steps).await;
        steps += 1;
        match phase {
            Phase::Unpolled => unpolled += 1,
            Phase::Requested => requested += 1,
            Phase::Acquired => {
                acquired += 1;
                steps = 0;
            }
        }
    }
    println!("dropped: {unpolled} not polled, {requested} after requests, {acquired} after the lock was acquired");
    assert!(acquired > 0 && requested > acquired, "the acquires were not dropped in every phase");
    cluster.close_and_check(client).await;
    assert_free(&cluster, "job").await;
}

#[tokio::test]
async fn an_acquire_that_is_dropped_while_the_lock_is_held_changes_no_node() {
    let cluster = ProxiedCluster::start(5).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let lease = holder.lock("job").acquire().await.unwrap();
    cluster.wait_for_key_on("quorlock:job", &[0, 1, 2, 3, 4]).await;
    let (mut not_queued, mut queued) = (0, 0);
    let mut steps = 1_usize;
    while queued < 10 {
        let client = connect_to_all(cluster.direct_builder()).await;
        let has_waited = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&has_waited);
        let lock = client.lock("job").observe(move |_| reported.store(true, Ordering::Release));
        {
            let mut acquire = pin!(lock.acquire());
            assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            for _ in 0..steps {
                yield_now().await;
            }
            // The observer is called when the acquire is polled.
            assert!(acquire.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            *(if has_waited.load(Ordering::Acquire) { &mut queued } else { &mut not_queued }) += 1;
            steps += steps.div_ceil(8);
        }
        drop(lock);
        client.close(CLOSE_TIMEOUT).await.unwrap();
        for server in &cluster.servers {
            assert_eq!(server.command(&["GET", "quorlock:job"]).as_str(), Some(lease.id().reveal().as_str()));
            assert_eq!(
                server.command(&["EXISTS", "quorlock~queue:quorlock:job"]).as_int(),
                Some(0),
                "a waiter is left"
            );
        }
    }
    println!("dropped: {not_queued} before the wait, {queued} while they waited");
    assert!(not_queued > 0, "no acquire was dropped before it had to wait");
    lease.release().await.unwrap();
    cluster.close_and_check(holder).await;
    assert_free(&cluster, "job").await;
}

/// Random durations from zero to 6 milliseconds. Most are shorter than a millisecond, like most rounds.
struct RandomDurations(u64);

impl Iterator for RandomDurations {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let fraction = (self.0 >> 40) as f64 / f64::from(1 << 24);
        Some(Duration::from_secs_f64(fraction.powi(3) * 0.006))
    }
}

/// Waits in a busy loop, because the timers of the runtime have a precision of a millisecond.
async fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        yield_now().await;
    }
}

/// Acquires `turns` times, and drops each acquire after a random time. Returns how many acquires succeeded before they
/// were dropped.
async fn drop_at_random_times(lock: Lock, turns: usize, seed: u64) -> usize {
    let mut acquired = 0;
    for (turn, timeout) in RandomDurations(seed).take(turns).enumerate() {
        let lease = if turn % 2 == 0 {
            tokio::select! {
                lease = lock.acquire() => Some(lease.expect("acquire retries until a majority votes")),
                () = spin(timeout) => None,
            }
        } else {
            tokio::time::timeout(timeout, lock.acquire())
                .await
                .ok()
                .map(|lease| lease.expect("acquire retries until a majority votes"))
        };
        acquired += usize::from(lease.is_some());
    }
    acquired
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquires_dropped_at_random_times_leave_no_key() {
    const TURNS: usize = 60;
    let cluster = ProxiedCluster::start(5).await;
    let proxy = &cluster.proxies[4];
    let (mut acquired, mut dropped) = (0, 0);
    for fault in ["none", "delay", "cut", "lost replies"] {
        let clients =
            [connect_to_all(cluster.proxied_builder()).await, connect_to_all(cluster.proxied_builder()).await];
        match fault {
            "delay" => proxy.delay(Duration::from_millis(2)),
            "lost replies" => proxy.drop_replies(true),
            _ => {}
        }
        // Two tasks compete for each name.
        let names = (0..6).map(|task| (task, format!("job {}", task % 3)));
        let tasks: Vec<_> = names
            .map(|(task, name)| {
                tokio::spawn(drop_at_random_times(clients[task / 3].lock(&name), TURNS, 1 + task as u64))
            })
            .collect();
        for task in tasks {
            if fault == "cut" {
                proxy.cut();
            }
            let successes = task.await.unwrap();
            acquired += successes;
            dropped += TURNS - successes;
        }
        proxy.refuse(true);
        proxy.cut();
        proxy.drop_replies(false);
        proxy.delay(Duration::ZERO);
        proxy.refuse(false);
        for client in clients {
            client.close(CLOSE_TIMEOUT).await.expect("all nodes are reachable again and accept the releases");
        }
        assert_eq!(
            cluster.lock_keys_by_node().concat(),
            Vec::<String>::new(),
            "votes are left after the network fault {fault}"
        );
        for name in ["job 0", "job 1", "job 2"] {
            assert_free(&cluster, name).await;
        }
    }
    println!("dropped: {dropped} acquires before they ended, {acquired} leases");
    assert!(dropped > 0 && acquired > 0);
}

/// Polls a future once, and drops it.
fn poll_once_and_drop(work: impl Future) {
    let _ = pin!(work).poll(&mut Context::from_waker(Waker::noop()));
}

/// Acquires the lock, and ends the lease without awaiting its release. `way`, from 0 to 5, selects how it ends.
async fn acquire_and_end(lock: &Lock, way: usize) {
    let lease = expect_soon(lock.acquire()).await.expect("the previous holder has released the lock");
    match way {
        0 => drop(lease),
        1 => {
            let panicked = tokio::spawn(async move {
                let _lease = lease;
                std::panic::resume_unwind(Box::new("a panic of the test"));
            });
            assert!(panicked.await.is_err_and(|error| error.is_panic()));
        }
        2 => poll_once_and_drop(lease.release()),
        3 => drop(lease.release()),
        4 => {
            poll_once_and_drop(lease.extend());
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
async fn a_lock_is_released_in_every_way_that_a_holder_ends_its_lease() {
    let cluster = ProxiedCluster::start(5).await;
    let clients = [connect_to_all(cluster.direct_builder()).await, connect_to_all(cluster.direct_builder()).await];
    for turn in 0..60 {
        acquire_and_end(&clients[turn % 2].lock("job"), turn % 6).await;
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
    let client = connect_to_all(cluster.direct_builder()).await;
    let lock = client.lock("job");
    for _ in 0..10 {
        let panics = lock.run(async |_lease| -> () { std::panic::resume_unwind(Box::new("a panic of the test")) });
        expect_soon(AssertUnwindSafe(panics).catch_unwind()).await.unwrap_err();
        let work_started = Arc::new(tokio::sync::Notify::new());
        let endless = lock.run(async |_lease| {
            work_started.notify_one();
            std::future::pending::<()>().await;
        });
        tokio::select! {
            _ = endless => unreachable!("the work has no end"),
            () = expect_soon(work_started.notified()) => {}
        }
    }
    drop(lock);
    cluster.close_and_check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_when_their_client_is_closed() {
    let cluster = ProxiedCluster::start(5).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let mut leases = Vec::new();
    for number in 0..10 {
        leases.push(client.lock(format!("job {number}")).acquire().await.unwrap());
    }
    std::mem::forget(client.lock("leaked").acquire().await.unwrap());
    cluster.wait_for_key_on("quorlock:leaked", &[0, 1, 2, 3, 4]).await;
    let lost_future = leases[0].lost();
    client.close(CLOSE_TIMEOUT).await.unwrap();
    cluster.wait_until_unlocked().await;
    assert_eq!(expect_soon(lost_future).await, LostError::Closed);
    for lease in &leases {
        assert_eq!(lease.fence(), Err(FenceError::Lost(LostError::Closed)));
        assert_eq!(lease.validity(), Duration::ZERO);
        assert!(expect_soon(lease.extend()).await.is_err());
    }

    // Requests of the closed client must not touch the leases of later clients.
    let later_client = connect_to_all(cluster.direct_builder()).await;
    let lease = later_client.lock("job 0").try_acquire().await.unwrap().expect("the lock is free");
    cluster.wait_for_key_on("quorlock:job 0", &[0, 1, 2, 3, 4]).await;
    assert!(expect_soon(leases.remove(0).release()).await.is_err());
    drop(leases);
    lease.extend().await.unwrap();
    cluster.wait_for_key_on("quorlock:job 0", &[0, 1, 2, 3, 4]).await;
    lease.release().await.unwrap();
    cluster.close_and_check(later_client).await;
}

/// Starts an acquire of a held lock in a new task.
async fn start_waiter(lock: Lock) -> tokio::task::JoinHandle<Result<(), AcquireError>> {
    let (start, started) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut acquire = pin!(lock.acquire());
        start.send(()).expect("the receiver waits");
        let lease = acquire.as_mut().await?;
        lease.ensure(Duration::from_secs(1)).expect("the lease of a live lock is valid");
        Ok(())
    });
    started.await.expect("the task starts");
    task
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_survives_the_drop_of_its_client_but_not_a_close() {
    let cluster = ProxiedCluster::start(5).await;
    let holder = connect_to_all(cluster.direct_builder()).await;
    let lease = holder.lock("job").acquire().await.unwrap();

    let client = connect_to_all(cluster.direct_builder()).await;
    let waiter = start_waiter(client.lock("job")).await;
    client.close(CLOSE_TIMEOUT).await.unwrap();
    assert_eq!(expect_soon(waiter).await.unwrap(), Err(AcquireError::Closed));

    let client = connect_to_all(cluster.direct_builder()).await;
    let waiter = start_waiter(client.lock("job")).await;
    drop(client);
    lease.release().await.unwrap();
    expect_soon(waiter).await.unwrap().expect("a lock keeps its client's connections alive");
    cluster.wait_until_unlocked().await;
    assert_free(&cluster, "job").await;
}

/// Runs the work on another runtime, which ends when the work is done.
fn run_on_another_runtime<T: Send + 'static>(work: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("the system can start a runtime");
    std::thread::spawn(move || runtime.block_on(work())).join().expect("the work does not panic")
}

/// A link may wait for other callers before it sends a batch. But it must send the release of a dropped lease at once,
/// because the runtime may never run again.
#[tokio::test]
async fn a_dropped_lease_is_released_even_if_the_runtime_never_runs_again() {
    let cluster = ProxiedCluster::start(3).await;
    let client = connect_to_all(cluster.direct_builder()).await;
    let names: Vec<String> = (0..8).map(|at| format!("job/{at}")).collect();
    let locks: Vec<Lock> = names.iter().map(|name| client.lock(name)).collect();
    // The links send the first request alone, and the others as one batch. After a batch of several requests, a link
    // waits for other callers before it sends the next batch.
    let mut leases = futures_util::future::join_all(locks.iter().map(Lock::acquire)).await;
    for name in &names {
        cluster.wait_for_key_on(&format!("quorlock:{name}"), &[0, 1, 2]).await;
    }
    // While a batch waits for its replies, a link sends no other batch. Replies arrive in order: with the replies to
    // this inspection, no batch is under way.
    eventually_async("all replies to have arrived", async || {
        let inspection = client.inspect("job/0").await.expect("the client is open");
        inspection.nodes.iter().all(|(_, report)| report.is_ok())
    })
    .await;
    drop(leases.pop());
    // The code below awaits nothing. The runtime has only this thread, so no task runs any more.
    let is_released = |keys: Vec<Vec<String>>| keys.iter().all(|keys| keys.len() == leases.len());
    eventually("the dropped lease to be released", || is_released(cluster.lock_keys_by_node()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_runtime_a_client_fails_at_once_and_its_lease_expires() {
    let cluster = Cluster::start(3).await;
    let live_client = connect_to_all(cluster.builder()).await;
    let builder = cluster.builder();
    let (client, lease, mut waiter) = run_on_another_runtime(async move || {
        let client = connect_to_all(builder).await;
        let lease = client.lock("job").acquire().await.unwrap();
        let lock = client.lock("job");
        let mut waiter = Box::pin(async move { lock.acquire().await });
        assert!(waiter.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (client, lease, waiter)
    });
    assert!(expect_soon(waiter.as_mut()).await.is_err(), "no runtime is left to send requests");
    assert!(expect_soon(client.lock("other").try_acquire()).await.is_err());
    expect_soon(lease.lost()).await;
    assert!(lease.fence().is_err());
    assert!(expect_soon(lease.extend()).await.is_err());
    assert!(expect_soon(lease.release()).await.is_err());
    drop((waiter, client));
    drop(expect_soon(live_client.lock("job").acquire()).await.expect("the lease has expired"));
}
