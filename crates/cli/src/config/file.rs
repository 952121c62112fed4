//! The configuration file: common settings at the top, and profiles that override some of them.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::key::{KEYS, Key, find};
use crate::config::value::{Kind, Value, mask_if_url, nodes_value};
use crate::config::variable;
use crate::exit::{Failure, Outcome};

/// A setting in the file: the key, its value, and the number of its line.
type Entry = (&'static Key, Value, usize);

/// A valid configuration file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// The profile that applies if none is chosen.
    pub(crate) default_profile: Option<String>,
    /// The settings at the top of the file, which apply to every profile.
    common: Vec<Entry>,
    profiles: Vec<(String, Vec<Entry>)>,
}

impl File {
    /// Reads the named file, or else the first default file that exists. Also returns the paths that were tried, in
    /// order.
    pub(crate) fn find(named: Option<PathBuf>) -> Outcome<(Option<Self>, Vec<PathBuf>)> {
        let named = variable::flag_or_read(named, "QUORLOCK_CONFIG")?;
        let is_named = named.is_some();
        let mut tried = Vec::new();
        for path in named.map_or_else(default_paths, |path| vec![path]) {
            tried.push(path.clone());
            // A file behind a broken link or in an unreadable folder is an error, not a missing file: if the file were
            // ignored, quorlock might use locks that only this host sees.
            let is_missing = std::fs::symlink_metadata(&path)
                .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory));
            if is_missing && !is_named {
                check_folders(&path)?;
                continue;
            }
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| Failure::config(format!("{}: {error}", path.display())))?;
            return Ok((Some(Self::parse(path, &text)?), tried));
        }
        Ok((None, tried))
    }

    /// Parses a file. The error names the line, but never contains a value, because a value may contain a password.
    pub(crate) fn parse(path: PathBuf, text: &str) -> Outcome<Self> {
        let reader = Reader { path: &path, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.failure(error.span().unwrap_or_default().start, error.message()))?;
        let (mut common, mut profiles, mut default_profile) = (Vec::new(), Vec::new(), None);
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("default_profile", DeValue::String(name)) => default_profile = Some(name.to_string()),
                ("default_profile", _) => return Err(reader.failure(at, "default_profile takes a profile's name")),
                ("profile", DeValue::Table(tables)) => profiles = reader.profiles(tables)?,
                ("profile", _) => return Err(reader.failure(at, "profiles are tables, as in [profile.staging]")),
                _ => common.push(reader.entry(key, value)?),
            }
        }
        Ok(Self { path, default_profile, common, profiles })
    }

    /// Checks that the profile exists.
    pub(crate) fn check_profile(&self, name: &str) -> Outcome<()> {
        if self.profiles.iter().any(|(profile, _)| profile == name) {
            return Ok(());
        }
        let known: Vec<&str> = self.profiles.iter().map(|(profile, _)| profile.as_str()).collect();
        let known = if known.is_empty() { "there are none".into() } else { format!("there are {}", known.join(", ")) };
        Err(Failure::config(format!("{}: no profile {name:?}; {known}", self.path.display())))
    }

    /// Returns the value of a key, and its line in the file. A value in the profile overrides a common value.
    pub(crate) fn value(&self, key: &'static Key, profile: Option<&str>) -> Option<(Value, String)> {
        let find_value = |entries: &[Entry], profile_note: String| {
            let (_, value, line) = entries.iter().find(|(other, ..)| other.name == key.name)?;
            Some((value.clone(), format!("{}:{line}{profile_note}", self.path.display())))
        };
        let profile = self.profiles.iter().find(|(name, _)| Some(name.as_str()) == profile);
        let value = profile.and_then(|(name, entries)| find_value(entries, format!(" (profile {name})")));
        value.or_else(|| find_value(&self.common, String::new()))
    }
}

/// Reads the parts of a file.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    /// Returns the number of the line at this offset of the file.
    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns the failure for a mistake at this offset of the file.
    fn failure(&self, offset: usize, why: impl std::fmt::Display) -> Failure {
        Failure::config(format!("{}:{}: {why}", self.path.display(), self.line(offset)))
    }

    fn profiles(&self, tables: &DeTable<'_>) -> Outcome<Vec<(String, Vec<Entry>)>> {
        let profile = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let failure =
                || self.failure(name.span().start, "a profile is a table of settings, as in [profile.staging]");
            let entries = value.get_ref().as_table().ok_or_else(failure)?;
            let entries = entries.iter().map(|(key, value)| self.entry(key, value));
            Ok((name.get_ref().to_string(), entries.collect::<Result<_, _>>()?))
        };
        tables.iter().map(profile).collect()
    }

    fn entry(&self, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Outcome<Entry> {
        let (at, name) = (key.span().start, key.get_ref().as_ref());
        let known = find(name).ok_or_else(|| self.failure(at, unknown_key_text(name)))?;
        let wrong_kind = || self.failure(at, format!("{name} takes {}", known.kind.accepted()));
        let wrong_value = |why: String| self.failure(at, format!("{name}: {why}"));
        let value = match (known.kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(on)) => Value::Switch(*on),
            (Kind::Switch, _) => return Err(wrong_kind()),
            (Kind::Nodes, DeValue::Array(items)) => {
                let urls: Option<_> = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
                nodes_value(urls.ok_or_else(wrong_kind)?).map_err(wrong_value)?
            }
            (kind, DeValue::String(text)) => kind.parse(text).map_err(wrong_value)?,
            _ => return Err(wrong_kind()),
        };
        Ok((known, value, self.line(at)))
    }
}

fn unknown_key_text(name: &str) -> String {
    let hint = match name {
        "password" => ": passwords do not belong here, use password_file or $QUORLOCK_PASSWORD",
        _ => "",
    };
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).chain(["default_profile", "profile"]).collect();
    format!("unknown key {:?}{hint}\n  known are {}", mask_if_url(name), known.join(", "))
}

/// Fails if a folder in the path of a missing file is a broken link. Most likely, the file exists, and only the link is
/// wrong.
fn check_folders(path: &Path) -> Outcome<()> {
    let broken = path.ancestors().skip(1).find(|folder| folder.is_symlink() && !folder.is_dir());
    let Some((link, target)) = broken.and_then(|link| Some((link, std::fs::read_link(link).ok()?))) else {
        return Ok(());
    };
    let [path, link, target] = [path, link, &target].map(Path::display);
    Err(Failure::config(format!("{path}: {link} is a link to {target}, which is not a folder")))
}

/// Returns the folder `quorlock` in the folder that this variable names. If the variable is not set, returns the folder
/// `quorlock` in the folder `below_home` of the home directory.
pub(crate) fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    Some(folder(variable).or_else(|| Some(folder("HOME")?.join(below_home)))?.join("quorlock"))
}

/// Returns the default paths of the file.
fn default_paths() -> Vec<PathBuf> {
    let user = user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.toml"));
    user.into_iter().chain([PathBuf::from("/etc/quorlock/config.toml")]).collect()
}
