//! etcd's own lock.

use std::time::Duration;

use etcd_client::{LockOptions, PutOptions};

use crate::{Failure, Library, Task};

/// A client with one lease for all locks, like an etcd session. Only locking and unlocking is measured.
pub(crate) struct Etcd {
    client: etcd_client::Client,
    lease: i64,
}

impl Library for Etcd {
    async fn connect(task: &Task) -> Result<Self, Failure> {
        let mut client = etcd_client::Client::connect(&task.nodes, None).await?;
        let lease = client.lease_grant(i64::try_from(task.ttl_ms / 1000)?, None).await?.id();
        let (mut keep_alive_sender, mut answers) = client.lease_keep_alive(lease).await?;
        let every = Duration::from_millis(task.ttl_ms / 3);
        tokio::spawn(async move {
            while keep_alive_sender.keep_alive().await.is_ok() && answers.message().await.is_ok() {
                tokio::time::sleep(every).await;
            }
        });
        // The worker must not report that it is ready before the cluster can write.
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
