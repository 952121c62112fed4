//! The event history as a Redis stream.

use std::sync::Arc;

use super::commands::Commands;
use super::scripts::Home;
use super::trouble::describe;
use super::value::Value;
use crate::node::Answer;
use crate::node::event::{Event, FIELDS, HISTORY_MAX};

/// Writes the commands that add events.
pub(super) fn note(home: Home, events: &[Arc<Event>], commands: &mut Commands) {
    for event in events {
        commands.command("XADD").words(&[home.history_key(), "MAXLEN", "~"]).number(HISTORY_MAX as u64).word("*");
        for (field, value) in FIELDS.into_iter().zip(event.values()) {
            commands.word(field).word(value);
        }
    }
}

/// Writes the command that reads the newest events.
pub(super) fn recall(home: Home, limit: usize, commands: &mut Commands) {
    commands.command("XREVRANGE").words(&[home.history_key(), "+", "-", "COUNT"]).number(limit as u64);
}

/// Parses the reply to a note or a recall. Skips entries that another program wrote.
pub(super) fn answer(recalls: bool, values: &[Value]) -> Answer {
    let mut events = Vec::new();
    for value in values {
        match value {
            Value::Error(error) => return Answer::Failed(describe(error)),
            Value::Array(entries) if recalls => events.extend(entries.iter().filter_map(event)),
            _ if recalls => return Answer::Failed("a malformed reply to XREVRANGE".into()),
            _ => {}
        }
    }
    Answer::Events(events)
}

fn event(entry: &Value) -> Option<Event> {
    let [_, fields] = entry.as_array()? else { return None };
    let (pairs, _) = fields.as_array()?.as_chunks::<2>();
    let pairs: Vec<(&str, &str)> =
        pairs.iter().map(|[field, value]| Some((field.as_str()?, value.as_str()?))).collect::<Option<_>>()?;
    Event::read(|wanted| pairs.iter().find(|(field, _)| *field == wanted).map(|(_, value)| (*value).to_owned()))
}
