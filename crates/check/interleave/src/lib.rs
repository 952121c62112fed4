//! Runs the library's threads in orders that shuttle chooses. Shuttle may switch threads before every use of a mutex or
//! an atomic, in callers, arriving votes, timers and links. Each node runs the core's rules in its own thread. Time
//! passes only when the code of a test moves it, except for short sleeps.

mod cluster;
mod node;
mod queue;

pub use cluster::{Canceller, Cluster, run_scene};
pub use node::RequestCounts;
