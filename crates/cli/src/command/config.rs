//! `quorlock config`: every setting, and where it came from.

use clap::Args;
use serde::Serialize;

use crate::config::{Settings, list};
use crate::context::{Context, default_file};
use crate::exit::Exit;
use crate::table::Table;

/// Show every setting and where it came from.
#[derive(Args, Debug)]
#[command(after_help = "\
Flags come first, then the environment, then the file, then the defaults. The file is the one that --config or
$QUORLOCK_CONFIG names, or ~/.config/quorlock/config.toml, or /etc/quorlock/config.toml. It may have profiles:

  ttl = \"30s\"
  nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \"redis://10.0.0.3\"]
  require_cluster = true
  password_file = \"/etc/quorlock/password\"

  [profile.staging]
  nodes = [\"redis://10.1.0.1\"]

Example:
  quorlock config --profile staging")]
pub(crate) struct ConfigArgs {}

#[derive(Serialize)]
struct Shown {
    file: Option<String>,
    looked_for: Vec<String>,
    profile: Option<String>,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    key: &'static str,
    value: Option<String>,
    origin: String,
    about: &'static str,
}

/// Prints them.
pub(crate) fn config(context: &Context) -> crate::Outcome {
    let settings = &context.settings;
    let listed = settings.iter().map(|(key, value, origin)| Setting {
        key: key.name,
        value: value.map(crate::config::Value::show).or_else(|| fallback(settings, key.name)),
        origin: origin.to_string(),
        about: key.about,
    });
    let shown = Shown {
        file: settings.file.as_ref().map(|path| path.display().to_string()),
        looked_for: settings.looked_for.iter().map(|path| path.display().to_string()).collect(),
        profile: settings.profile.clone(),
        settings: listed.collect(),
    };
    if context.output.json {
        context.output.json(&shown)?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for setting in shown.settings {
        table.row([setting.key.into(), setting.value.unwrap_or_else(|| "-".into()), setting.origin]);
    }
    table.print(context.output)?;
    let file = shown.file.unwrap_or_else(|| "none".into());
    let profile = shown.profile.map_or_else(String::new, |profile| format!(", profile {profile}"));
    context.output.line(format!("\nfile: {file}{profile}\nlooked for: {}", list(&shown.looked_for)))?;
    Ok(Exit::OK)
}

/// The value of a key that has no fixed default.
fn fallback(settings: &Settings, key: &str) -> Option<String> {
    (key == "nodes" && !settings.is_on("require_cluster"))
        .then(|| default_file().ok().map(|path| format!("sqlite:{}", path.display())))?
}
