//! quorlock, as a client sees it.

use std::time::Duration;

use quorlock::{Client, ConnectError, Lease};
use tokio::time::sleep;

use super::{Held, Library};
use crate::Failure;
use crate::task::{BACKSTEP, MAX_TTL, NODE_DEADLINE, SIGMA, Task};

/// Longer than any episode: whoever is not served by its end is starved.
const PATIENCE: Duration = Duration::from_secs(600);
/// How soon a client that found its nodes unfit tries again.
const RECONNECT: Duration = Duration::from_millis(100);

/// quorlock itself.
#[derive(Debug)]
pub struct Own(Client);

impl Library for Own {
    type Held = OwnHeld;

    async fn connect(task: &Task) -> Result<Self, Failure> {
        let mut builder = Client::builder()
            .nodes(&task.urls)
            .ttl(Duration::from_millis(task.ttl_ms))
            .max_ttl(MAX_TTL)
            .sigma(SIGMA)
            .backstep(BACKSTEP)
            .node_deadline(NODE_DEADLINE)
            .label(format!("c{}", task.client));
        if task.trusting {
            builder = builder.danger_trust_restarts();
        }
        loop {
            match builder.clone().connect().await {
                Ok(client) => return Ok(Self(client)),
                Err(ConnectError::Config(error)) => return Err(error.into()),
                // Faults have begun already: it may be fit soon.
                Err(_) => sleep(RECONNECT).await,
            }
        }
    }

    async fn acquire(&self, name: &str) -> Result<OwnHeld, Failure> {
        let lease = self.0.lock(name).acquire_within(PATIENCE).await?;
        let fence = lease.fence().ok().map(quorlock::Fence::get);
        Ok(OwnHeld { lease, fence })
    }

    async fn close(self) {
        // What could not be delivered lapses.
        let _ = self.0.close(NODE_DEADLINE).await;
    }
}

/// A lease, and its fence: whoever has it uses it, also when it is too late.
#[derive(Debug)]
pub struct OwnHeld {
    lease: Lease,
    fence: Option<u64>,
}

impl Held for OwnHeld {
    fn fence(&self) -> Option<u64> {
        self.fence
    }

    fn validity(&self) -> Duration {
        self.lease.validity()
    }

    /// The watchdog does it.
    async fn keep(&mut self) -> bool {
        true
    }

    async fn lost(&self) {
        self.lease.lost().await;
    }

    async fn release(self) {
        // That it was lost is told already; a release that too few have acknowledged is delivered later.
        let _ = self.lease.release().await;
    }
}
