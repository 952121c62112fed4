//! Events in the history of locks, as nodes store them.

use quorlock_core::fence::Fence;
use quorlock_core::name::{Holder, Name, cut};
use quorlock_core::request::BreakMode;
use quorlock_core::terms::Mode;

/// The approximate number of events that a node keeps.
pub const HISTORY_MAX: usize = 10_000;
/// The longest stored reason, in bytes. Longer reasons are truncated.
pub const REASON_BYTES_MAX: usize = 512;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// A lease was acquired.
    Granted,
    /// A lease was released.
    Released,
    /// A lease was lost: its validity ended before it was released.
    Lost,
    /// An operator broke a lease.
    Broken,
}

impl What {
    const ALL: [(Self, &str); 4] =
        [(Self::Granted, "granted"), (Self::Released, "released"), (Self::Lost, "lost"), (Self::Broken, "broken")];

    /// Returns the kind as one word.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(what, _)| *what)
    }
}

/// An event in the history of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The event's id, the same on every node.
    pub(crate) id: u64,
    /// The time of the event in microseconds since the Unix epoch, by the median of the nodes' clocks.
    pub at_micros: u64,
    /// The lock's name.
    pub name: Name,
    /// The kind of event.
    pub what: What,
    /// The lease's fence; `None` for a plain lock.
    pub fence: Option<Fence>,
    /// The holder; for a break, the client that broke the lease.
    pub holder: Option<Holder>,
    /// The lease's mode: `exclusive`, `plain`, `reentrant`, `shared` or `slot`; for a break, `drain` or `now`.
    pub mode: String,
    /// The reason why the lease was lost or broken, for people.
    pub reason: String,
}

/// The names of an event's fields, as nodes store them.
pub(crate) const FIELDS: [&str; 8] = ["id", "at", "name", "what", "fence", "holder", "mode", "reason"];

impl Event {
    pub(crate) fn new(id: u64, at_micros: u64, name: &Name, what: What, fence: Option<Fence>) -> Self {
        let (name, mode, reason) = (name.clone(), String::new(), String::new());
        Self { id, at_micros, name, what, fence, holder: None, mode, reason }
    }

    /// Sets the holder and the mode.
    pub(crate) fn by(self, holder: Option<Holder>, mode: &str) -> Self {
        Self { holder, mode: mode.into(), ..self }
    }

    /// Sets the reason, truncated to [`REASON_BYTES_MAX`] and without control characters.
    pub(crate) fn because(self, reason: &str) -> Self {
        Self { reason: cut(reason, REASON_BYTES_MAX).replace(char::is_control, " "), ..self }
    }

    /// Returns the values of the [`FIELDS`].
    pub(crate) fn values(&self) -> [String; FIELDS.len()] {
        [
            format!("{:016x}", self.id),
            self.at_micros.to_string(),
            self.name.to_string(),
            self.what.as_str().into(),
            self.fence.map(|fence| fence.to_string()).unwrap_or_default(),
            self.holder.as_ref().map(Holder::encode).unwrap_or_default(),
            self.mode.clone(),
            self.reason.clone(),
        ]
    }

    /// Parses the values that [`values`](Self::values) returned. Returns `None` if a value is missing or invalid.
    pub(crate) fn read(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let fence = value("fence")?;
        Some(Self {
            id: u64::from_str_radix(&value("id")?, 16).ok()?,
            at_micros: value("at")?.parse().ok()?,
            name: Name::new(&value("name")?).ok()?,
            what: What::parse(&value("what")?)?,
            fence: if fence.is_empty() { None } else { Some(Fence::new(fence.parse().ok()?)) },
            holder: Holder::decode(&value("holder")?),
            mode: value("mode")?,
            reason: value("reason")?,
        })
    }
}

/// Returns the word for a lease's mode in the history: `plain` for an exclusive lease without a fence.
pub(crate) fn word_for(mode: Mode, fence: Option<Fence>) -> &'static str {
    match mode {
        Mode::Exclusive { .. } if fence.is_none() => "plain",
        _ => mode.as_str(),
    }
}

/// Returns the word for the mode of a break, in the history and as an argument of `break.lua`.
pub(crate) fn word_for_break(mode: BreakMode) -> &'static str {
    match mode {
        BreakMode::Drain => "drain",
        BreakMode::Now => "now",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn event() -> Event {
        Event {
            id: u64::MAX,
            at_micros: 1_700_000_000_123_456,
            name: Name::new("a b\u{9501}").unwrap(),
            what: What::Broken,
            fence: Some(Fence::new(7)),
            holder: Some(Holder::new("host", 1, "a label")),
            mode: "drain".into(),
            reason: String::new(),
        }
    }

    fn read(values: &[String; FIELDS.len()]) -> Option<Event> {
        Event::read(|wanted| FIELDS.iter().position(|field| *field == wanted).map(|at| values[at].clone()))
    }

    #[test]
    fn read_returns_the_event_that_was_written() {
        let plain = Event { fence: None, holder: None, what: What::Lost, reason: "why".into(), ..event() };
        for event in [event(), plain] {
            assert_eq!(read(&event.values()), Some(event));
        }
    }

    #[test]
    fn an_event_with_an_invalid_or_missing_value_is_not_read() {
        for (at, wrong) in [(0, "xyz"), (1, ""), (2, ""), (3, "unknown"), (4, "-1")] {
            let mut values = event().values();
            values[at] = wrong.into();
            assert_eq!(read(&values), None, "{}: {wrong}", FIELDS[at]);
        }
        assert_eq!(Event::read(|_| None), None);
    }

    #[test]
    fn a_reason_is_stored_as_one_line_of_bounded_length() {
        let reason = event().because(&format!("two\nlines{}", "\u{9501}".repeat(REASON_BYTES_MAX))).reason;
        assert!(reason.starts_with("two lines\u{9501}") && reason.len() <= REASON_BYTES_MAX, "{reason}");
    }
}
