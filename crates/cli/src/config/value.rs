//! The values of settings.

use std::time::Duration;

use crate::duration::{parse_duration, show_exactly};

/// The kind of value that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text. The parameter is the placeholder in the help.
    Text(&'static str),
    /// A number with a unit.
    Duration,
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// URLs of nodes, which may contain passwords.
    Nodes,
}

impl Kind {
    /// Returns the accepted values, for error messages.
    pub(crate) fn accepted(self) -> String {
        match self {
            Self::Text(_) => "a text, as in \"nightly\"".into(),
            Self::Duration => "a duration, as in \"500ms\", \"30s\", \"5m\" or \"2h\"".into(),
            Self::Switch => "true or false".into(),
            Self::Choice(words) => {
                format!("one of {}", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "))
            }
            Self::Nodes => "a list of URLs, as in [\"redis://a\", \"redis://b\", \"redis://c\"]".into(),
        }
    }

    /// Parses a text from a flag, a variable or a file. No error contains a URL, because a URL may contain a password.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text(_) => Ok(Value::Text(text.to_owned())),
            Self::Duration | Self::Switch | Self::Choice(_) if text.contains("://") => {
                Err(format!("a URL is not {}", self.accepted()))
            }
            Self::Duration => parse_duration(text).map(Value::Duration),
            Self::Switch => match text {
                "true" | "1" | "yes" => Ok(Value::Switch(true)),
                "false" | "0" | "no" => Ok(Value::Switch(false)),
                other => Err(format!("{other:?} is not {}", self.accepted())),
            },
            Self::Choice(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Self::Choice(_) => Err(format!("{text:?} is not {}", self.accepted())),
            Self::Nodes => nodes_value(split_nodes(text)),
        }
    }
}

/// Returns the text without passwords, in case that it is a URL in the wrong place.
pub(super) fn mask_if_url(text: &str) -> String {
    if text.contains("://") { quorlock::mask_url(text) } else { text.to_owned() }
}

/// A value that was set.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Duration(Duration),
    Switch(bool),
    List(Vec<String>),
}

impl Value {
    /// Formats the value for people, without passwords.
    pub(crate) fn show(&self) -> String {
        match self {
            Self::Text(text) => mask_if_url(text),
            Self::Duration(duration) => show_exactly(*duration),
            Self::Switch(on) => on.to_string(),
            Self::List(nodes) => nodes.iter().map(|node| quorlock::mask_url(node)).collect::<Vec<_>>().join(","),
        }
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.show())
    }
}

/// Returns the value of a list of nodes. Fails if an entry is blank: most likely, that entry comes from an unset
/// variable.
pub(crate) fn nodes_value(nodes: Vec<String>) -> Result<Value, String> {
    if nodes.iter().all(|node| node.trim().is_empty()) {
        return Err("the list of nodes is empty; list them, or leave the setting out".into());
    }
    match nodes.iter().position(|node| node.trim().is_empty()) {
        Some(index) => Err(format!("the list of nodes has a blank entry, number {} of {}", index + 1, nodes.len())),
        None => Ok(Value::List(nodes)),
    }
}

/// Splits a list of nodes at its commas. The URLs of Sentinel and Cluster nodes may contain commas: such a URL ends
/// only before a blank entry or before the scheme of the next URL. Keeps blank entries.
pub(crate) fn split_nodes(text: &str) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let has_scheme = part.contains("://") || ["sqlite:", "memory:", "unix:"].iter().any(|s| part.starts_with(s));
        let may_have_commas = |node: &&mut String| node.contains("+sentinel://") || node.contains("+cluster://");
        match nodes.last_mut().filter(may_have_commas) {
            Some(last) if !has_scheme && !part.is_empty() => last.extend([",", part]),
            _ => nodes.push(part.to_owned()),
        }
    }
    nodes
}
