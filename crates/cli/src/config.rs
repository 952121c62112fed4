//! The settings and their origins: flags, environment, file and defaults, in this order of precedence.

mod file;
mod key;
mod value;
mod variable;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::exit::{Failure, Outcome};
use file::File;
pub(crate) use file::user_folder;
pub(crate) use key::{KEYS, Key, flag_args, typed_flags};
use value::Kind;
pub(crate) use value::Value;

/// A key, its value (if any), and the origin of the value: `--ttl`, `$QUORLOCK_TTL`, `config.toml:3` or `default`.
type Setting = (&'static Key, Option<Value>, String);

/// The settings on the command line: each key with the text of its flag.
pub(crate) type Flags = Vec<(&'static Key, String)>;

/// Every setting with its origin.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) values: Vec<Setting>,
    /// The file that was read.
    pub(crate) file: Option<PathBuf>,
    /// The paths at which a file was searched, in order. If a file was found, its path is the last path.
    pub(crate) looked_for: Vec<PathBuf>,
    /// The profile that was chosen.
    pub(crate) profile: Option<String>,
}

impl Settings {
    /// Reads all settings. `config` names a file that must exist, and `profile` a profile of the file.
    pub(crate) fn read(flags: &Flags, config: Option<PathBuf>, profile: Option<String>) -> Outcome<Self> {
        variable::check()?;
        let (file, looked_for) = File::find(config)?;
        let profile = variable::flag_or_read(profile, "QUORLOCK_PROFILE")?;
        let profile = profile.or_else(|| file.as_ref()?.default_profile.clone());
        if let Some(profile) = &profile {
            let Some(file) = &file else {
                let why = format!("there is no configuration file; looked for {}", join_paths(&looked_for));
                return Err(Failure::config(format_args!("profile {profile}: {why}")));
            };
            file.check_profile(profile)?;
        }
        let resolve = |key| resolve(key, flags, file.as_ref(), profile.as_deref());
        let values = KEYS.iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(Self { values, file: file.map(|file| file.path), looked_for, profile })
    }

    /// Returns the value and the origin of a setting.
    fn value(&self, name: &str) -> (Option<&Value>, &str) {
        let setting = self.values.iter().find(|(key, ..)| key.name == name);
        debug_assert!(setting.is_some(), "there is no setting {name}");
        setting.map_or((None, "default"), |(_, value, origin)| (value.as_ref(), origin))
    }

    /// Returns the text of a setting, if it is set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let Some(Value::Text(text)) = self.value(name).0 else { return None };
        Some(text)
    }

    /// Returns the duration of a setting that has a default.
    pub(crate) fn duration(&self, name: &str) -> Duration {
        self.optional_duration(name).unwrap_or_default()
    }

    /// Returns the duration of a setting, if it is set.
    pub(crate) fn optional_duration(&self, name: &str) -> Option<Duration> {
        let Some(Value::Duration(duration)) = self.value(name).0 else { return None };
        Some(*duration)
    }

    /// Returns whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        matches!(self.value(name).0, Some(Value::Switch(true)))
    }

    /// Returns the origin of a setting's value.
    pub(crate) fn origin(&self, name: &str) -> &str {
        self.value(name).1
    }

    /// Returns the nodes' URLs, with secrets; `None` if they are not set. The list is never empty.
    pub(crate) fn nodes(&self) -> Option<&[String]> {
        let Some(Value::List(nodes)) = self.value("nodes").0 else { return None };
        Some(nodes)
    }

    /// Returns the password for nodes whose URL has none, from the environment or the password file.
    pub(crate) fn password(&self) -> Outcome<Option<String>> {
        if let Some(password) = variable::read("QUORLOCK_PASSWORD")? {
            return Ok(Some(password));
        }
        let (Some(Value::Text(path)), origin) = self.value("password_file") else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::config(format!("{origin}: cannot read the password from {path}: {error}")))?;
        // Editors add a line break at the end of a file, which is not part of the password.
        let password = text.trim_end_matches(['\n', '\r']);
        if password.is_empty() {
            return Err(Failure::config(format!("{origin}: the password file {path} is empty")));
        }
        Ok(Some(password.to_owned()))
    }
}

/// Returns the setting with the value of the highest precedence.
fn resolve(key: &'static Key, flags: &Flags, file: Option<&File>, profile: Option<&str>) -> Outcome<Setting> {
    let parse = |text: &str, origin: String, fail: fn(String) -> Failure| match key.kind.parse(text) {
        Ok(value) => Ok((key, Some(value), origin)),
        Err(why) => Err(fail(format!("{origin}: {why}"))),
    };
    if let Some((_, text)) = flags.iter().find(|(flag, _)| flag.name == key.name) {
        // A blank list of nodes most likely comes from an unset variable: report it as a wrong configuration, not as
        // wrong usage.
        return parse(text, key.flag(), if key.kind == Kind::Nodes { Failure::config } else { Failure::usage });
    }
    if let Some(text) = variable::read(&key.variable())? {
        return parse(&text, format!("${}", key.variable()), Failure::config);
    }
    if let Some((value, origin)) = file.and_then(|file| file.value(key, profile)) {
        return Ok((key, Some(value), origin));
    }
    match key.default {
        Some(text) => parse(text, "default".into(), Failure::config),
        None => Ok((key, None, "default".into())),
    }
}

/// Formats a list of paths for messages.
pub(crate) fn join_paths(paths: &[impl AsRef<Path>]) -> String {
    paths.iter().map(|path| path.as_ref().display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
