//! `quorlock config`: shows every setting and where it came from.

use serde_json::json;

use crate::config::{Key, Settings, Value, join_paths};
use crate::context::Context;
use crate::exit::Outcome;
use crate::table::Table;

pub(crate) fn config(context: &Context) -> Outcome {
    let output = context.output;
    let Settings { values, file, looked_for, profile } = &context.settings;
    // The default of `nodes` is not fixed: it depends on the user.
    let default = |key: &Key| if key.name == "nodes" { Some(context.urls().ok()?.join(",")) } else { None };
    let settings = values.iter().map(|(key, value, origin)| {
        let value = value.as_ref().map(Value::show);
        (key, value.or_else(|| default(key)), origin)
    });
    if output.json {
        let mut listed = Vec::new();
        for (key, value, origin) in settings {
            listed.push(json!({ "key": key.name, "value": value, "origin": origin, "about": key.about }));
        }
        return output.json(&json!({ "file": file, "looked_for": looked_for, "profile": profile, "settings": listed }));
    }
    let mut table = Table::new(["KEY", "VALUE", "FROM"]);
    for (key, value, origin) in settings {
        table.row([key.name.into(), value.unwrap_or_else(|| "-".into()), origin.clone()]);
    }
    table.print(output)?;
    let file = file.as_ref().map_or_else(|| "none".into(), |file| file.display().to_string());
    let profile = profile.as_ref().map_or_else(String::new, |profile| format!(", profile {profile}"));
    output.line(format!("\nfile: {file}{profile}\nlooked for: {}", join_paths(looked_for)))
}
