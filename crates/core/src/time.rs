//! Moments, ttls and the drift allowance for clocks that run at different rates.

use core::time::Duration;

/// The shortest ttl. A shorter one would leave no validity after drift and network delay.
pub const TTL_MIN: Duration = Duration::from_millis(100);
/// The longest ttl that any cluster may allow.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The default ttl.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);

/// A point in time on this process's own clock, which keeps running while the machine is suspended.
///
/// A moment has no meaning in other processes. Messages contain durations, never moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Creates the moment this many nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the moment `by` before this one, but not before the clock's origin.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl core::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The lifetime asked of the nodes: whole milliseconds within bounds, fixed for the life of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// Creates a ttl from a duration between [`TTL_MIN`] and the cluster's `max_ttl`, rounded down to a millisecond.
    ///
    /// # Errors
    /// [`TtlError`] if the duration is out of bounds.
    pub fn new(ttl: Duration, max_ttl: Duration) -> Result<Self, TtlError> {
        let max_ttl = max_ttl.min(TTL_MAX);
        if ttl < TTL_MIN || ttl > max_ttl {
            return Err(TtlError { ttl, max_ttl });
        }
        Ok(Self(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the ttl in milliseconds, the unit of the nodes.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the ttl as a duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// A ttl outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ttl of {ttl:?} is out of bounds: at least {TTL_MIN:?}, at most the cluster's max_ttl of {max_ttl:?}")]
pub struct TtlError {
    /// The requested ttl.
    pub ttl: Duration,
    /// The longest ttl that the cluster allows.
    pub max_ttl: Duration,
}

/// The allowance for clocks that run at different rates: a fraction of the ttl plus a constant.
///
/// For a ttl `T`, margin `d`, fastest node rate `1 + r` and slowest client rate `1 - r`, the margin must satisfy `(T -
/// d)(1 + r) <= T (1 - r)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    /// Parts per million of the ttl.
    pub ppm: u32,
    /// An added constant, for clocks that count whole milliseconds.
    pub fixed: Duration,
}

impl Drift {
    /// 10 % and 2 ms: sufficient even while an NTP daemon slews a node's clock at its usual limit of 8.3 %.
    pub const SLEWING: Self = Self { ppm: 100_000, fixed: Duration::from_millis(2) };
    /// 1 % and 2 ms, the figures of the Redlock page: for hosts that limit how fast NTP slews the clock.
    pub const REDLOCK: Self = Self { ppm: 10_000, fixed: Duration::from_millis(2) };
    /// The largest `ppm`: half of the ttl.
    pub const PPM_MAX: u32 = 500_000;

    /// Returns the margin to subtract from a ttl.
    pub fn of(self, ttl: Ttl) -> Duration {
        Duration::from_micros(ttl.as_millis().saturating_mul(u64::from(self.ppm)) / 1_000).saturating_add(self.fixed)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::SLEWING
    }
}

#[cfg(test)]
mod tests;
