//! Moments, times to live and the allowance for clocks that run at different rates.

use core::time::Duration;

/// The shortest ttl that can be asked for: below it, drift and network delay leave nothing to hold.
pub const TTL_MIN: Duration = Duration::from_millis(100);
/// The longest ttl that any cluster may allow.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The ttl of a lock that names none.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);

/// A point on this process's own suspend-proof clock.
///
/// It has no meaning anywhere else and is never sent: durations travel, moments stay home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment that lies this many nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This moment, moved into the past; the clock's origin if it would lie before that.
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
    /// Accepts a duration between [`TTL_MIN`] and the cluster's `max_ttl`, rounded down to a millisecond.
    ///
    /// # Errors
    /// [`TtlError`] names the value and both bounds.
    pub fn new(ttl: Duration, max_ttl: Duration) -> Result<Self, TtlError> {
        let max_ttl = max_ttl.min(TTL_MAX);
        if ttl < TTL_MIN || ttl > max_ttl {
            return Err(TtlError { ttl, max_ttl });
        }
        Ok(Self(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The ttl as nodes count it.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The ttl as a duration.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// A ttl outside its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ttl of {ttl:?} is out of bounds: at least {TTL_MIN:?}, at most the cluster's max_ttl of {max_ttl:?}")]
pub struct TtlError {
    /// What was asked for.
    pub ttl: Duration,
    /// The most that the cluster allows.
    pub max_ttl: Duration,
}

/// The allowance for clocks that run at different rates: a share of the ttl plus a constant.
///
/// With ttl `T`, margin `d`, quickest node `1 + r` and slowest client `1 - r`, it has to hold that
/// `(T - d)(1 + r) <= T (1 - r)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drift {
    /// Parts per million of the ttl.
    pub ppm: u32,
    /// Added on top, for clocks that count whole milliseconds.
    pub fixed: Duration,
}

impl Drift {
    /// 10 % and 2 ms: holds even while an NTP daemon slews a node's clock at its usual limit of 8.3 %.
    pub const SLEWING: Self = Self { ppm: 100_000, fixed: Duration::from_millis(2) };
    /// 1 % and 2 ms, the figures of the Redlock page: for hosts whose slewing is capped.
    pub const REDLOCK: Self = Self { ppm: 10_000, fixed: Duration::from_millis(2) };
    /// Half of the ttl is the most that may be given away.
    pub const PPM_MAX: u32 = 500_000;

    /// What is taken off a ttl.
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
