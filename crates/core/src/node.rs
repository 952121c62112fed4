//! The other side: what a node does with a request.
//!
//! Memory and SQLite nodes run this code; the Lua scripts for Redis mirror it line by line, and a test drives both with
//! the same requests at the same times.

mod answer;
mod apply;
mod breaking;
mod inspect;
mod queue;
mod record;
mod restart;
mod time;

pub use answer::Answer;
pub use apply::apply;
pub use record::{Entry, FENCE_RETENTION_MIN, FenceNote, Place, Record, VoteNote, retention_millis};
pub use restart::{Constants, Epoch, Identity, Incarnation, NodeCommand, Standing, Trust, attend, quarantine_micros};
pub use time::NodeTime;

#[cfg(test)]
mod tests;
