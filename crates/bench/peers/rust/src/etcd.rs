//! etcd's own lock.

use std::time::Duration;

use etcd_client::{LockOptions, PutOptions};

use crate::{Failure, Library, Task};

/// A client with one etcd lease for all locks, as in an etcd session. The grant of this lease is not measured.
pub(crate) struct Etcd {
    client: etcd_client::Client,
    lease: i64,
}

impl Library for Etcd {
    async fn connect(task: &Task) -> Result<Self, Failure> {
        let mut client = etcd_client::Client::connect(&task.nodes, None).await?;
        let lease = client.lease_grant(i64::try_from(task.ttl_ms / 1000)?, None).await?.id();
        let (mut keep_alive_sender, mut replies) = client.lease_keep_alive(lease).await?;
        let keep_alive_interval = Duration::from_millis(task.ttl_ms / 3);
        tokio::spawn(async move {
            while keep_alive_sender.keep_alive().await.is_ok() && replies.message().await.is_ok() {
                tokio::time::sleep(keep_alive_interval).await;
            }
        });
        // A worker is ready only when the cluster accepts writes.
        client.put("bench/write-check", "", Some(PutOptions::new().with_lease(lease))).await?;
        Ok(Self { client, lease })
    }

    async fn cycle(&self, name: &str, _ttl: Duration) -> Result<(), Failure> {
        let mut client = self.client.clone();
        let held = client.lock(name, Some(LockOptions::new().with_lease(self.lease))).await?;
        client.unlock(held.key()).await?;
        Ok(())
    }
}
