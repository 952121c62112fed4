//! Parsing and formatting of durations.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses `500ms`, `30s`, `5m`, `2h` or `1d`. A number without a unit is refused as ambiguous.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("a duration is a number and a unit, as in 500ms, 30s, 5m or 2h".into());
    }
    if unit.is_empty() {
        return Err(format!("{number} of what? Say {number}s or {number}ms"));
    }
    let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(format!("{unit:?} is not a unit: use ms, s, m, h or d"));
    };
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*millis));
    millis.map(Duration::from_millis).ok_or_else(|| format!("{text} is too long"))
}

/// Returns whole milliseconds, for programs.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration exactly, as it would be typed: `500ms`, `30s`, `5m`.
pub(crate) fn show_exactly(duration: Duration) -> String {
    let millis = duration.as_millis();
    let is_exact = |(_, unit): &&(&str, u64)| millis != 0 && millis.is_multiple_of(u128::from(*unit));
    let (name, unit) = UNITS.iter().rev().find(is_exact).copied().unwrap_or(("s", 1_000));
    format!("{}{name}", millis / u128::from(unit))
}

/// Formats a duration for people: `2m10s`, `21s`, `0.4s`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_number_and_a_unit() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        for (text, message) in [
            ("30", "30s or 30ms"),
            ("", "a number and a unit"),
            ("s", "a number and a unit"),
            ("-1s", "a number and a unit"),
            ("5x", "not a unit"),
            ("1.5s", "not a unit"),
            ("99999999999999999999s", "too long"),
            ("99999999999999999d", "too long"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn an_exactly_shown_duration_can_be_parsed() {
        for text in ["0s", "1ms", "1500ms", "30s", "5m", "2h", "1d"] {
            assert_eq!(parse_duration(text).map(show_exactly), Ok(text.into()));
        }
    }

    #[test]
    fn durations_are_shown_rounded_for_people() {
        for (millis, shown) in [(420, "0.4s"), (21_000, "21s"), (130_000, "2m10s"), (7_260_000, "2h01m")] {
            assert_eq!(show(Duration::from_millis(millis)), shown);
        }
    }
}
