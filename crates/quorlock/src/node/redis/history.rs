//! The history as a stream of the server's, with about as many entries as are kept.

use std::sync::Arc;

use ::redis::{Cmd, Pipeline, Value, cmd};

use super::scripts::Home;
use crate::node::History;
use crate::node::event::{Event, FIELDS, HISTORY_MAX};

/// A question about the history as commands, and whether it reads.
pub(super) fn commands(home: Home, history: &History) -> (Pipeline, bool) {
    let mut pipe = Pipeline::new();
    match history {
        History::Note(events) => {
            for event in events {
                pipe.add_command(note(home, event));
            }
        }
        History::Recall(limit) => {
            pipe.cmd("XREVRANGE").arg(home.history_key()).arg("+").arg("-").arg("COUNT").arg(*limit);
        }
    }
    (pipe, matches!(history, History::Recall(_)))
}

fn note(home: Home, event: &Arc<Event>) -> Cmd {
    let mut command = cmd("XADD");
    command.arg(home.history_key()).arg("MAXLEN").arg("~").arg(HISTORY_MAX).arg("*");
    for (field, value) in FIELDS.into_iter().zip(event.values()) {
        command.arg(field).arg(value);
    }
    command
}

/// What was read, or why nothing was read or written. Entries that nobody of ours wrote are left out.
pub(super) fn told(recalls: bool, values: Vec<Value>) -> Result<Vec<Event>, String> {
    let mut events = Vec::new();
    for value in values {
        match value {
            Value::ServerError(error) => return Err(super::describe(&error.into())),
            Value::Array(entries) if recalls => events.extend(entries.iter().filter_map(event)),
            _ if recalls => return Err("a malformed reply to XREVRANGE".into()),
            _ => {}
        }
    }
    Ok(events)
}

fn event(entry: &Value) -> Option<Event> {
    let Value::Array(parts) = entry else { return None };
    let [_, Value::Array(fields)] = parts.as_slice() else { return None };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => None,
    };
    let pairs: Vec<(String, String)> =
        fields.chunks_exact(2).map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect::<Option<_>>()?;
    Event::read(|wanted| pairs.iter().find(|(field, _)| field == wanted).map(|(_, value)| value.clone()))
}
