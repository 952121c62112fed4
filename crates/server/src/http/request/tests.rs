use axum::extract::Query;
use axum::http::Uri;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestBody {
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

fn error_of(body: &str) -> String {
    body_error(&Json::<TestBody>::from_bytes(body.as_bytes()).unwrap_err())
}

#[test]
fn a_message_about_the_body_has_the_field_and_its_position_but_not_its_value() {
    let wrong = "wrong type: expected";
    for (body, expected) in [
        (r#"{"_ttl": "secret"}"#, format!("_ttl: {wrong} a whole number, 0 or more")),
        (r#"{"_ttl": -1}"#, format!("_ttl: {wrong} a whole number, 0 or more")),
        (r#"{"_name": ["secret"]}"#, format!("_name: {wrong} a string")),
        (r#"{"_mode": "secret, expected at line 1"}"#, format!("_mode: {wrong} `one` or `two`")),
        (r#"{"_parts": "secret"}"#, format!("_parts: {wrong} a list")),
        (r#"{"_parts": [{"_id": "a"}, {"_id": 1}]}"#, format!("_parts[1]._id: {wrong} a string")),
        (r#"{"_parts": [{"_id": "a"}, "secret"]}"#, format!("_parts[1]: {wrong} an object")),
        (r#"{"_parts": [{}]}"#, "_parts[0]: missing field `_id`".into()),
        (r#"{"_parts": [{"_id": "a", "id": "secret"}]}"#, "_parts[0]: unknown field `id`, expected `_id`".into()),
        (r#"{"nmae": "secret"}"#, "unknown field `nmae`, expected one of `_name`, `_ttl`, `_mode`, `_parts`".into()),
        (r#"{"_ttl": 1, "_ttl": 2}"#, "duplicate field `_ttl`".into()),
        (r#""secret""#, format!("{wrong} an object")),
    ] {
        let error = error_of(body);
        let (position, text) = error.split_once(": ").unwrap();
        assert!(position.starts_with("the body at line 1 column "), "{error}");
        assert_eq!(text, expected, "{body}");
    }
    for body in [r#"{"_name": "secret"#, "{} secret"] {
        assert_eq!(error_of(body), "the body is not valid JSON");
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestQuery {
    _limit: Option<usize>,
    _prefix: Option<String>,
}

#[test]
fn a_message_about_the_query_has_the_parameter() {
    for (query, expected) in [
        ("_limit=x", "the query: _limit: expected a whole number, 0 or more"),
        ("_limit=", "the query: _limit: expected a whole number, 0 or more"),
        ("_limit=99999999999999999999999", "the query: _limit: expected a whole number, 0 or more"),
        ("page=2", "the query: unknown parameter `page`, expected `_limit` or `_prefix`"),
        ("_limit=1&_limit=2", "the query: duplicate parameter `_limit`"),
    ] {
        let uri: Uri = format!("/?{query}").parse().unwrap();
        let error = Query::<TestQuery>::try_from_uri(&uri).unwrap_err();
        assert_eq!(query_error(&error), expected);
    }
}
