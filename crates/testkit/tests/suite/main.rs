//! The servers, the proxy and the clock that other tests rely on.

mod clock;
mod disk;
mod proxy;
mod redis_cluster;
mod redis_server;
mod sentinels;
mod wait;
