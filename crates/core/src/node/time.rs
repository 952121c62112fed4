//! A node's clocks.

/// A node's clocks. On Redis both are the wall clock; an SQLite node lets votes lapse by the time since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Microseconds since the Unix epoch: for fences.
    pub wall_micros: u64,
    /// Milliseconds on the clock by which things lapse.
    pub life_millis: u64,
}

impl NodeTime {
    /// The time of a node that has only its wall clock.
    pub fn wall(micros: u64) -> Self {
        Self { wall_micros: micros, life_millis: micros / 1_000 }
    }
}
