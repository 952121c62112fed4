use axum::extract::Query;
use axum::http::Uri;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    _name: Option<String>,
    _ttl: Option<u64>,
    #[serde(default)]
    _mode: Mode,
    _parts: Option<Vec<Part>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    #[default]
    One,
    Two,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    _id: String,
}

fn wrong(body: &str) -> String {
    about_body(&Json::<Whole>::from_bytes(body.as_bytes()).unwrap_err())
}

#[test]
fn a_field_that_cannot_be_read_is_named_and_its_value_is_not() {
    let kind = "a value of the wrong kind: expected";
    for (body, told) in [
        (r#"{"_ttl": "secret"}"#, format!("_ttl: {kind} a whole number, 0 or more")),
        (r#"{"_ttl": -1}"#, format!("_ttl: {kind} a whole number, 0 or more")),
        (r#"{"_name": ["secret"]}"#, format!("_name: {kind} a string")),
        (r#"{"_mode": "secret, expected at line 1"}"#, format!("_mode: {kind} `one` or `two`")),
        (r#"{"_parts": "secret"}"#, format!("_parts: {kind} a list")),
        (r#"{"_parts": [{"_id": "a"}, {"_id": 1}]}"#, format!("_parts[1]._id: {kind} a string")),
        (r#"{"_parts": [{"_id": "a"}, "secret"]}"#, format!("_parts[1]: {kind} an object")),
        (r#"{"_parts": [{}]}"#, "_parts[0]: missing field `_id`".into()),
        (r#"{"_parts": [{"_id": "a", "id": "secret"}]}"#, "_parts[0]: unknown field `id`, expected `_id`".into()),
        (r#"{"nmae": "secret"}"#, "unknown field `nmae`, expected one of `_name`, `_ttl`, `_mode`, `_parts`".into()),
        (r#"{"_ttl": 1, "_ttl": 2}"#, "duplicate field `_ttl`".into()),
        (r#""secret""#, format!("{kind} an object")),
    ] {
        let wrong = wrong(body);
        let (place, text) = wrong.split_once(": ").unwrap();
        assert!(place.starts_with("the body at line 1 column "), "{wrong}");
        assert_eq!(text, told, "{body}");
    }
    for body in [r#"{"_name": "secret"#, "{} secret"] {
        assert_eq!(wrong(body), "the body: this is not JSON");
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    _limit: Option<usize>,
    _prefix: Option<String>,
}

#[test]
fn a_parameter_that_cannot_be_read_is_named() {
    for (query, told) in [
        ("_limit=x", "the query: _limit: expected a whole number, 0 or more"),
        ("_limit=", "the query: _limit: expected a whole number, 0 or more"),
        ("_limit=99999999999999999999999", "the query: _limit: expected a whole number, 0 or more"),
        ("page=2", "the query: unknown parameter `page`, expected `_limit` or `_prefix`"),
        ("_limit=1&_limit=2", "the query: duplicate parameter `_limit`"),
    ] {
        let uri: Uri = format!("/?{query}").parse().unwrap();
        let error = Query::<Which>::try_from_uri(&uri).unwrap_err();
        assert_eq!(about_query(&error), told);
    }
}
