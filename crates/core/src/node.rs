//! The server side: how a node handles a request.
//!
//! In-memory and SQLite nodes run this code. The Lua scripts for Redis mirror this code line by line. A test sends the
//! same requests at the same times to this code and to the scripts, and compares the answers.

mod answer;
mod apply;
mod breaking;
mod inspect;
mod queue;
mod record;
mod restart;
pub mod roster;
mod time;

pub use answer::Answer;
pub use apply::apply;
pub use record::{Entry, FENCE_RETENTION_MIN, FenceNote, QueuedWaiter, Record, VoteNote, retention_millis};
pub use restart::{Constants, Epoch, Identity, Incarnation, NodeCommand, Standing, Trust, attend, quarantine_micros};
pub use time::NodeTime;

#[cfg(test)]
mod tests;
