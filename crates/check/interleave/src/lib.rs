//! Runs the library's threads in orders that shuttle chooses. Callers, arriving votes, timers and links may switch
//! before every use of a mutex or an atomic. Each node runs the core's rules in its own thread. Time passes only when a
//! scene moves it, except for short sleeps.

mod cluster;
mod node;
mod queue;

pub use cluster::{Canceller, Cluster, run_scene};
pub use node::RequestCounts;
