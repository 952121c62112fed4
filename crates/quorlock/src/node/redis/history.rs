//! The event history as a Redis stream.

use std::sync::Arc;

use super::resp::{Commands, Value};
use super::scripts::ServerKind;
use super::trouble::describe;
use crate::node::Answer;
use crate::node::event::{Event, FIELDS, HISTORY_MAX};

/// Writes the commands that append events to the stream.
pub(super) fn note(server_kind: ServerKind, events: &[Arc<Event>], commands: &mut Commands) {
    for event in events {
        commands
            .command("XADD")
            .words(&[server_kind.history_key(), "MAXLEN", "~"])
            .number(HISTORY_MAX as u64)
            .word("*");
        for (field, value) in FIELDS.into_iter().zip(event.values()) {
            commands.word(field).word(value);
        }
    }
}

/// Writes the command that reads the newest events.
pub(super) fn recall(server_kind: ServerKind, limit: usize, commands: &mut Commands) {
    commands.command("XREVRANGE").words(&[server_kind.history_key(), "+", "-", "COUNT"]).number(limit as u64);
}

/// Parses the replies to [`note`]. Returns `Failed` if one of the replies is an error.
pub(super) fn note_answer(values: &[Value]) -> Answer {
    let errors = values.iter().find_map(|value| if let Value::Error(error) = value { Some(error) } else { None });
    errors.map_or_else(|| Answer::Events(Vec::new()), |error| Answer::Failed(describe(error)))
}

/// Parses the reply to [`recall`]. Skips entries that another program wrote.
pub(super) fn recall_answer(values: &[Value]) -> Answer {
    let mut events = Vec::new();
    for value in values {
        match value {
            Value::Error(error) => return Answer::Failed(describe(error)),
            Value::Array(entries) => events.extend(entries.iter().filter_map(parse_event)),
            _ => return Answer::Failed("a malformed reply to XREVRANGE".into()),
        }
    }
    Answer::Events(events)
}

fn parse_event(entry: &Value) -> Option<Event> {
    let [_, fields] = entry.as_array()? else { return None };
    let (pairs, _) = fields.as_array()?.as_chunks::<2>();
    let pairs: Vec<(&str, &str)> =
        pairs.iter().map(|[field, value]| Some((field.as_str()?, value.as_str()?))).collect::<Option<_>>()?;
    Event::read(|wanted| pairs.iter().find(|(field, _)| *field == wanted).map(|(_, value)| (*value).to_owned()))
}
