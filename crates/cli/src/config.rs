//! The settings and their origins: flags, environment, file and defaults, in this order of precedence.

mod file;
mod key;
mod value;
mod variable;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::exit::Failure;
use file::File;
pub(crate) use key::{KEYS, Key, args as flag_args, typed as typed_flags};
use value::Kind;
pub(crate) use value::Value;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag.
    Flag(String),
    /// An environment variable.
    Environment(String),
    /// A line of a file, and the profile that it belongs to.
    File { path: PathBuf, line: usize, profile: Option<String> },
    /// The default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Environment(variable) => write!(f, "${variable}"),
            Self::File { path, line, profile: None } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line, profile: Some(profile) } => {
                write!(f, "{}:{line} (profile {profile})", path.display())
            }
            Self::Default => f.write_str("default"),
        }
    }
}

/// The settings on the command line: each key, and its text.
pub(crate) type Flags = Vec<(&'static Key, String)>;

/// Every setting with its origin.
#[derive(Debug)]
pub(crate) struct Settings {
    values: Vec<(&'static Key, Option<Value>, Origin)>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// The paths that were searched for a file, in order; the last one is the file, if there is one.
    pub(crate) looked_for: Vec<PathBuf>,
    /// The profile that was chosen.
    pub(crate) profile: Option<String>,
}

impl Settings {
    /// Reads all settings. `config` names a file that must exist, and `profile` one of its profiles.
    pub(crate) fn read(flags: &Flags, config: Option<PathBuf>, profile: Option<String>) -> Result<Self, Failure> {
        variable::check()?;
        let (file, looked_for) = File::find(config)?;
        let profile = match profile {
            Some(profile) => Some(profile),
            None => variable::read("QUORLOCK_PROFILE")?,
        };
        let profile = profile.or_else(|| file.as_ref()?.default_profile.clone());
        if let Some(profile) = &profile {
            let Some(file) = &file else {
                let looked_for = list(&looked_for);
                let text = format!("profile {profile}: there is no configuration file; looked for {looked_for}");
                return Err(Failure::config(text));
            };
            file.check_profile(profile)?;
        }
        let mut values = Vec::new();
        for key in KEYS {
            values.push(Self::resolve(key, flags, file.as_ref(), profile.as_deref())?);
        }
        Ok(Self { values, file: file.map(|file| file.path), looked_for, profile })
    }

    fn resolve(
        key: &'static Key,
        flags: &Flags,
        file: Option<&File>,
        profile: Option<&str>,
    ) -> Result<(&'static Key, Option<Value>, Origin), Failure> {
        let read = |text: &str, origin: Origin| match key.kind.read(text) {
            Ok(value) => Ok((key, Some(value), origin)),
            // A blank list of nodes most likely comes from an unset variable, and not from a typing error.
            Err(why) if matches!(origin, Origin::Flag(_)) && key.kind != Kind::Nodes => {
                Err(Failure::usage(format_args!("{origin}: {why}")))
            }
            Err(why) => Err(Failure::config(format_args!("{origin}: {why}"))),
        };
        if let Some((_, text)) = flags.iter().find(|(flag, _)| flag.name == key.name) {
            return read(text, Origin::Flag(key.flag()));
        }
        if let Some(text) = variable::read(&key.variable())? {
            return read(&text, Origin::Environment(key.variable()));
        }
        if let Some((value, origin)) = file.and_then(|file| file.value(key, profile)) {
            return Ok((key, Some(value), origin));
        }
        match key.default {
            Some(text) => read(text, Origin::Default),
            None => Ok((key, None, Origin::Default)),
        }
    }

    /// Returns each key with its value and the origin of the value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Key, Option<&Value>, &Origin)> {
        self.values.iter().map(|(key, value, origin)| (*key, value.as_ref(), origin))
    }

    fn value(&self, name: &str) -> (Option<&Value>, &Origin) {
        let found = self.values.iter().find(|(key, ..)| key.name == name);
        debug_assert!(found.is_some(), "{name} is no key");
        found.map_or((None, &Origin::Default), |(_, value, origin)| (value.as_ref(), origin))
    }

    /// Returns a text, if it is set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name).0 {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a duration that has a default.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        self.optional_duration(name).unwrap_or_default()
    }

    pub(crate) fn optional_duration(&self, name: &str) -> Option<Duration> {
        match self.value(name).0 {
            Some(Value::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    /// Returns whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.value(name).0, Some(Value::Switch(true)))
    }

    /// Returns whether it was set on the command line.
    pub(crate) fn is_typed(&self, name: &str) -> bool {
        matches!(self.value(name).1, Origin::Flag(_))
    }

    /// Returns the origin of a value.
    pub(crate) fn origin(&self, name: &str) -> &Origin {
        self.value(name).1
    }

    /// Returns the nodes' URLs, with secrets; `None` if they are not set. The list is never empty.
    pub(crate) fn nodes(&self) -> Option<&[String]> {
        match self.value("nodes").0 {
            Some(Value::List(nodes)) => Some(nodes),
            _ => None,
        }
    }

    /// Returns the password for nodes whose URL has none, from its file or the environment.
    pub(crate) fn password(&self) -> Result<Option<String>, Failure> {
        if let Some(password) = variable::read("QUORLOCK_PASSWORD")? {
            return Ok(Some(password));
        }
        let (Some(Value::Text(path)), origin) = self.value("password_file") else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::config(format!("{origin}: cannot read the password from {path}: {error}")))?;
        // Editors end a file with a line break; passwords do not.
        let password = text.trim_end_matches(['\n', '\r']);
        if password.is_empty() {
            return Err(Failure::config(format!("{origin}: the password file {path} is empty")));
        }
        Ok(Some(password.to_owned()))
    }
}

/// Formats paths for messages.
pub(crate) fn list(paths: &[impl AsRef<Path>]) -> String {
    paths.iter().map(|path| path.as_ref().display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
