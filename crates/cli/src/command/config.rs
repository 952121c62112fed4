//! `quorlock config`: every setting, and where it came from.

use serde_json::json;

use crate::config::{Key, Origin, Settings, Value, list};
use crate::context::{Context, default_file};
use crate::exit::Exit;
use crate::table::Table;

pub(crate) fn config(context: &Context) -> crate::Outcome {
    let (settings, output) = (&context.settings, context.output);
    let shown = |name: &str, value: Option<&Value>| value.map(Value::show).or_else(|| fallback(settings, name));
    if output.json {
        let setting = |(key, value, origin): (&Key, Option<&Value>, &Origin)| {
            json!({
                "key": key.name,
                "value": shown(key.name, value),
                "origin": origin.to_string(),
                "about": key.about,
            })
        };
        output.json(&json!({
            "file": settings.file,
            "looked_for": settings.looked_for,
            "profile": settings.profile,
            "settings": settings.iter().map(setting).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for (key, value, origin) in settings.iter() {
        table.row([key.name.into(), shown(key.name, value).unwrap_or_else(|| "-".into()), origin.to_string()]);
    }
    table.print(output)?;
    let file = settings.file.as_ref().map_or_else(|| "none".into(), |file| file.display().to_string());
    let profile = settings.profile.as_ref().map_or_else(String::new, |profile| format!(", profile {profile}"));
    output.line(format!("\nfile: {file}{profile}\nlooked for: {}", list(&settings.looked_for)))?;
    Ok(Exit::OK)
}

/// Returns the value of a key that has no fixed default.
fn fallback(settings: &Settings, key: &str) -> Option<String> {
    (key == "nodes" && !settings.is_on("require_cluster"))
        .then(|| default_file().ok().map(|path| format!("sqlite:{}", path.display())))?
}
