//! A node's clocks.

/// A node's clocks. On Redis both are the wall clock; on SQLite, votes expire by the time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Microseconds since the Unix epoch, for fences.
    pub wall_micros: u64,
    /// Milliseconds on the clock by which votes expire.
    pub life_millis: u64,
}

impl NodeTime {
    /// Returns the time of a node that has only a wall clock.
    pub fn wall(micros: u64) -> Self {
        Self { wall_micros: micros, life_millis: micros / 1_000 }
    }
}
