//! Interleaves the library's own threads: callers, arriving votes, timers and links run in orders that shuttle chooses,
//! with a possible switch before every mutex and atomic. Each node runs the core's rules on its own thread. Time stands
//! still unless a scene moves it.

mod cluster;
mod node;
mod queue;

pub use cluster::{Bell, Cluster, play};
pub use node::Count;
