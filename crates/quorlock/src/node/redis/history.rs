//! The history as a stream of the server's, with about as many entries as are kept.

use std::sync::Arc;

use ::redis::{Cmd, Pipeline, Value, cmd};

use super::scripts::Home;
use crate::node::Answer;
use crate::node::event::{Event, FIELDS, HISTORY_MAX};

/// The commands that add events.
pub(super) fn note(home: Home, events: &[Arc<Event>]) -> Pipeline {
    let mut pipe = Pipeline::new();
    for event in events {
        pipe.add_command(add(home, event));
    }
    pipe
}

/// The command that reads the newest events.
pub(super) fn recall(home: Home, limit: usize) -> Pipeline {
    let mut pipe = Pipeline::new();
    pipe.cmd("XREVRANGE").arg(home.history_key()).arg("+").arg("-").arg("COUNT").arg(limit);
    pipe
}

fn add(home: Home, event: &Arc<Event>) -> Cmd {
    let mut command = cmd("XADD");
    command.arg(home.history_key()).arg("MAXLEN").arg("~").arg(HISTORY_MAX).arg("*");
    for (field, value) in FIELDS.into_iter().zip(event.values()) {
        command.arg(field).arg(value);
    }
    command
}

/// The answer to a note or a recall. Entries that another program wrote are left out.
pub(super) fn answer(recalls: bool, values: Vec<Value>) -> Answer {
    let mut events = Vec::new();
    for value in values {
        match value {
            Value::ServerError(error) => return Answer::Failed(super::describe(&error.into())),
            Value::Array(entries) if recalls => events.extend(entries.iter().filter_map(event)),
            _ if recalls => return Answer::Failed("a malformed reply to XREVRANGE".into()),
            _ => {}
        }
    }
    Answer::Events(events)
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
