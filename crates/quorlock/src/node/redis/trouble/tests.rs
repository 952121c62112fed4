use ::redis::{Value, parse_redis_value};

use super::*;

fn described(said: &[u8]) -> String {
    match parse_redis_value(said) {
        Ok(Value::ServerError(error)) => describe(&error.into()),
        Ok(value) => panic!("not an error: {value:?}"),
        Err(error) => describe(&error),
    }
}

#[test]
fn a_server_says_nothing_to_the_terminal_of_whoever_reads_its_errors() {
    assert_eq!(described(b"-ERR \x1b]0;mine\x07 no\r\n"), "ERR \u{fffd}]0;mine\u{fffd} no");
    assert_eq!(described(b"-\x1b[2J\r\n"), "\u{fffd}[2J");
    assert_eq!(described(b"!8\r\nERR a\r\nb\r\n"), "ERR a\u{fffd}\u{fffd}b");
}

#[test]
fn a_server_is_not_quoted_at_any_length() {
    let long = format!("-ERR {}\r\n", "ü".repeat(10_000));
    let words = described(long.as_bytes());
    assert!(words.starts_with("ERR üü") && words.len() <= WORDS_BYTES_MAX, "{} bytes", words.len());
}
