//! A client process that uses rslock. Every choice favours rslock: the validity counts from before the request, and the
//! client does not use the registers while it extends a lease.

use std::error::Error;
use std::time::Duration;

use quorlock_faults::Failure;
use quorlock_faults::clock;
use quorlock_faults::task::Task;
use quorlock_faults::worker::{HeldLock, Library, work};
use rslock::{Lock, LockError, LockManager};
use tokio::time::sleep;

/// rslock's default delay between two attempts.
const RETRY_DELAY_MS: u64 = 200;
/// The clock drift that rslock subtracts from a ttl: a hundredth of the ttl, and two milliseconds.
const DRIFT_DIVISOR: u32 = 100;
const DRIFT_MIN: Duration = Duration::from_millis(2);

struct Rslock {
    rslock: LockManager,
    ttl: Duration,
}

impl Library for Rslock {
    type HeldLock = Lease;

    async fn connect(task: &Task) -> Result<Self, Failure> {
        let mut rslock = LockManager::new(task.urls.clone());
        // Each call makes only one attempt, so that the client knows when the attempt that got the lock began.
        rslock.set_retry(1, Duration::from_millis(RETRY_DELAY_MS));
        Ok(Self { rslock, ttl: Duration::from_millis(task.ttl_ms) })
    }

    async fn acquire(&self, name: &str) -> Result<Lease, Failure> {
        loop {
            let requested_at = clock::now();
            match self.rslock.lock(name.as_bytes(), self.ttl).await {
                Ok(lock) => {
                    let valid_until = valid_until(requested_at, self.ttl);
                    return Ok(Lease { rslock: self.rslock.clone(), lock, ttl: self.ttl, valid_until });
                }
                Err(error @ LockError::TtlTooLarge) => return Err(error.into()),
                Err(_) => sleep(Duration::from_millis(fastrand::u64(..RETRY_DELAY_MS))).await,
            }
        }
    }

    async fn close(self) {}
}

struct Lease {
    rslock: LockManager,
    lock: Lock,
    ttl: Duration,
    valid_until: u64,
}

impl HeldLock for Lease {
    fn fence(&self) -> Option<u64> {
        None
    }

    fn validity(&self) -> Duration {
        Duration::from_nanos(self.valid_until.saturating_sub(clock::now()))
    }

    /// Extends the lease when half of the ttl is left, as rslock's `using` does for a ttl of a second. A failed extension
    /// releases the lock.
    async fn extend_if_needed(&mut self) -> bool {
        if self.validity() > self.ttl / 2 {
            return true;
        }
        let requested_at = clock::now();
        match self.rslock.extend(&self.lock, self.ttl).await {
            Ok(lock) => {
                self.lock = lock;
                self.valid_until = valid_until(requested_at, self.ttl);
                true
            }
            Err(_) => false,
        }
    }

    async fn lost(&self) {
        std::future::pending().await
    }

    async fn release(self) {
        self.lock.release().await;
    }
}

fn valid_until(requested_at: u64, ttl: Duration) -> u64 {
    requested_at + (ttl - ttl / DRIFT_DIVISOR - DRIFT_MIN).as_nanos() as u64
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let task = std::env::args().nth(1).ok_or("no task")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work::<Rslock>(serde_json::from_str(&task)?))
}
