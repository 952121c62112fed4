//! `quorlock config`: every setting, and where it came from.

use serde_json::json;

use crate::config::{Settings, Value, list};
use crate::context::{Context, default_file};
use crate::exit::Outcome;
use crate::table::Table;

pub(crate) fn config(context: &Context) -> Outcome {
    let (settings, output) = (&context.settings, context.output);
    let settings_shown = settings.values.iter().map(|(key, value, origin)| {
        (key, value.as_ref().map(Value::show).or_else(|| fallback(settings, key.name)), origin)
    });
    if output.json {
        let setting = settings_shown.map(
            |(key, value, origin)| json!({ "key": key.name, "value": value, "origin": origin, "about": key.about }),
        );
        return output.json(&json!({
            "file": settings.file,
            "looked_for": settings.looked_for,
            "profile": settings.profile,
            "settings": setting.collect::<Vec<_>>(),
        }));
    }
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for (key, value, origin) in settings_shown {
        table.row([key.name.into(), value.unwrap_or_else(|| "-".into()), origin.clone()]);
    }
    table.print(output)?;
    let file = settings.file.as_ref().map_or_else(|| "none".into(), |file| file.display().to_string());
    let profile = settings.profile.as_ref().map_or_else(String::new, |profile| format!(", profile {profile}"));
    output.line(format!("\nfile: {file}{profile}\nlooked for: {}", list(&settings.looked_for)))
}

/// Returns the value of a key that has no fixed default.
fn fallback(settings: &Settings, key: &str) -> Option<String> {
    (key == "nodes" && !settings.is_on("require_cluster"))
        .then(|| default_file().ok().map(|path| format!("sqlite:{}", path.display())))?
}
