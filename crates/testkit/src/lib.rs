//! Real Redis servers, a faulty network, a movable wall clock and a slow disk, for tests.
//!
//! All servers and proxies run on free ports of 127.0.0.1 and in temporary
//! folders, and stop when their handles are dropped. No process outlives the
//! test process, even if SIGKILL ends the test process.

#![expect(clippy::missing_panics_doc, reason = "test support panics on every failure, with a message that says why")]

mod authority;
mod clock;
mod disk;
#[cfg(feature = "http")]
pub mod http;
mod port;
mod proxy;
mod redis_cluster;
mod redis_server;
mod reply;
mod sentinels;
mod shim;
mod spawner;
mod wait;

pub use authority::Authority;
pub use clock::Clock;
pub use disk::Disk;
pub use proxy::{Loss, Proxy};
pub use redis_cluster::RedisCluster;
pub use redis_server::{Aof, RedisServer, RedisServerBuilder};
pub use reply::Reply;
pub use sentinels::{Sentinels, SentinelsBuilder};
pub use spawner::{command_that_dies_with_parent, spawn};
pub use wait::{DEADLINE, eventually, eventually_async, with_longest_stall};
