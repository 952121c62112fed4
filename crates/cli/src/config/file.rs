//! The configuration file: common settings at the top, and profiles that override some of them.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::key::{KEYS, Key, find};
use crate::config::value::{Kind, Value, checked};
use crate::config::variable;
use crate::exit::{Failure, Outcome};

/// A value, and the line that it is on.
type Entry = (&'static Key, Value, usize);

/// A configuration file without errors.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// The profile that applies if none is chosen.
    pub(crate) default_profile: Option<String>,
    top: Vec<Entry>,
    profiles: Vec<(String, Vec<Entry>)>,
}

impl File {
    /// Reads the named file, or else the first default file that exists. Also returns the paths that it tried, in
    /// order.
    pub(crate) fn find(named: Option<PathBuf>) -> Outcome<(Option<Self>, Vec<PathBuf>)> {
        let named = variable::flag_or_read(named, "QUORLOCK_CONFIG")?;
        let is_named = named.is_some();
        let mut tried = Vec::new();
        for path in named.map_or_else(usual_places, |path| vec![path]) {
            tried.push(path.clone());
            // A file behind a broken link or in an unreadable folder counts as present, and is an error: if it were
            // ignored, this host might use its own locks.
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

    /// Parses a file. The error names the line, and never repeats a value, which may contain a password.
    pub(crate) fn parse(path: PathBuf, text: &str) -> Outcome<Self> {
        let reader = Reader { path: &path, text };
        let table = DeTable::parse(text)
            .map_err(|error| reader.wrong(error.span().unwrap_or_default().start, error.message()))?;
        let (mut top, mut profiles, mut default_profile) = (Vec::new(), Vec::new(), None);
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("default_profile", DeValue::String(name)) => default_profile = Some(name.to_string()),
                ("default_profile", _) => return Err(reader.wrong(at, "default_profile takes a profile's name")),
                ("profile", DeValue::Table(tables)) => profiles = reader.profiles(tables)?,
                ("profile", _) => return Err(reader.wrong(at, "profiles are tables, as in [profile.staging]")),
                _ => top.push(reader.entry(key, value)?),
            }
        }
        Ok(Self { path, default_profile, top, profiles })
    }

    /// Checks that the profile exists.
    pub(crate) fn check_profile(&self, name: &str) -> Outcome<()> {
        if self.profiles.iter().any(|(profile, _)| profile == name) {
            return Ok(());
        }
        let known: Vec<&str> = self.profiles.iter().map(|(profile, _)| profile.as_str()).collect();
        let known = if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) };
        Err(Failure::config(format!("{}: no profile {name:?}; {known}", self.path.display())))
    }

    /// Returns the value of a key, and its place in the file. A value in the profile overrides a common value.
    pub(crate) fn value(&self, key: &'static Key, profile: Option<&str>) -> Option<(Value, String)> {
        let pick = |entries: &[Entry], of_profile: String| {
            let (_, value, line) = entries.iter().find(|(found, ..)| found.name == key.name)?;
            Some((value.clone(), format!("{}:{line}{of_profile}", self.path.display())))
        };
        let chosen = self.profiles.iter().find(|(name, _)| Some(name.as_str()) == profile);
        let chosen = chosen.and_then(|(name, entries)| pick(entries, format!(" (profile {name})")));
        chosen.or_else(|| pick(&self.top, String::new()))
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Returns the failure for a mistake at this offset of the file.
    fn wrong(&self, at: usize, why: impl std::fmt::Display) -> Failure {
        Failure::config(format!("{}:{}: {why}", self.path.display(), self.line(at)))
    }

    fn profiles(&self, tables: &DeTable<'_>) -> Outcome<Vec<(String, Vec<Entry>)>> {
        let profile = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            let wrong = || self.wrong(name.span().start, "a profile is a table of settings, as in [profile.staging]");
            let entries = value.get_ref().as_table().ok_or_else(wrong)?;
            let entries = entries.iter().map(|(key, value)| self.entry(key, value));
            Ok((name.get_ref().to_string(), entries.collect::<Result<_, _>>()?))
        };
        tables.iter().map(profile).collect()
    }

    fn entry(&self, key: &Spanned<Cow<'_, str>>, value: &Spanned<DeValue<'_>>) -> Outcome<Entry> {
        let (at, name) = (key.span().start, key.get_ref().as_ref());
        let known = find(name).ok_or_else(|| self.wrong(at, unknown(name)))?;
        let expected = || self.wrong(at, format!("{name} takes {}", known.kind.accepts()));
        let wrong = |why: String| self.wrong(at, format!("{name}: {why}"));
        let value = match (known.kind, value.get_ref()) {
            (Kind::Switch, DeValue::Boolean(on)) => Value::Switch(*on),
            (Kind::Switch, _) => return Err(expected()),
            (Kind::Nodes, DeValue::Array(items)) => {
                let urls: Option<_> = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
                checked(urls.ok_or_else(expected)?).map_err(wrong)?
            }
            (kind, DeValue::String(text)) => kind.read(text).map_err(wrong)?,
            _ => return Err(expected()),
        };
        Ok((known, value, self.line(at)))
    }
}

fn unknown(name: &str) -> String {
    let hint = match name {
        "password" => ": passwords do not belong here, use password_file or $QUORLOCK_PASSWORD",
        _ => "",
    };
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).chain(["default_profile", "profile"]).collect();
    format!("unknown key {name:?}{hint}\n  known are {}", known.join(", "))
}

/// Fails if a folder in the path of a missing file is a broken link: then the file most likely exists elsewhere, and
/// was not omitted on purpose.
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
fn usual_places() -> Vec<PathBuf> {
    let user = user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.toml"));
    user.into_iter().chain([PathBuf::from("/etc/quorlock/config.toml")]).collect()
}
