//! The library's own threads, interleaved: callers, votes that come in, timers and links, in orders that shuttle chooses, with
//! a switch before every mutex and atomic of theirs. Nodes run the core's rules, each on a thread of its own. Time stands
//! still unless a scene moves it.

mod cluster;
mod node;
mod queue;

pub use cluster::{Bell, Cluster, play};
pub use node::Count;
