//! The only randomness: for names that nobody else has, never for secrets.

/// 64 random bits.
pub(crate) fn bits() -> u64 {
    // Numbers of requests and of streams only have to differ.
    getrandom::u64().unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
        now.map_or(0, |now| now.as_nanos() as u64)
    })
}
