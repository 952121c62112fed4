//! Tests of the servers, the proxy, the clock and the disk on which other tests rely.

mod clock;
mod disk;
mod proxy;
mod redis_cluster;
mod redis_server;
mod sentinels;
mod wait;
