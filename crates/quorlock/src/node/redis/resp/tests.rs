mod commands;

use ::redis::Value as RedisRsValue;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Parses the first value in these bytes. Returns it with its length in bytes.
fn parse_first(bytes: &[u8]) -> Result<Option<(Value, usize)>, &'static str> {
    let mut parser = Parser::default();
    parser.buffer().extend_from_slice(bytes);
    Ok(parser.next()?.map(|value| (value, parser.at)))
}

/// Converts a value of redis-rs.
fn convert(value: RedisRsValue) -> Value {
    let all = |parts: Vec<RedisRsValue>| parts.into_iter().map(convert).collect();
    match value {
        RedisRsValue::Nil => Value::Nil,
        RedisRsValue::Okay => Value::Okay,
        RedisRsValue::Int(number) => Value::Int(number),
        RedisRsValue::BulkString(text) => Value::Text(text),
        RedisRsValue::SimpleString(text) | RedisRsValue::VerbatimString { text, .. } => Value::Text(text.into()),
        RedisRsValue::Array(parts) => Value::Array(all(parts)),
        RedisRsValue::Map(pairs) => {
            Value::Map(pairs.into_iter().flat_map(|(key, value)| [convert(key), convert(value)]).collect())
        }
        RedisRsValue::ServerError(error) => {
            let details = error.details().map(|details| format!(" {details}"));
            Value::Error(format!("{}{}", error.code(), details.unwrap_or_default()))
        }
        _ => Value::Other,
    }
}

fn bulk(kind: char, text: &[u8]) -> Vec<u8> {
    [format!("{kind}{}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// Returns encoded values of every kind, also nested.
fn encoded_values() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        "[ -~]{0,9}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
        "[A-Z]{1,5} [!-~]{1,9}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        (-9_i64..9).prop_map(|number| format!(":{number}\r\n").into_bytes()),
        select(vec!["+OK\r\n", "_\r\n", "$-1\r\n", "*-1\r\n", "#t\r\n", ",1.5\r\n", "(7\r\n", "*0\r\n", "$0\r\n\r\n"])
            .prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 0..20).prop_map(|text| bulk('$', &text)),
        "[ -~]{0,9}".prop_map(|text| bulk('=', format!("txt:{text}").as_bytes())),
        "[A-Z]{1,5} [!-~]{1,9}".prop_map(|text| bulk('!', text.as_bytes())),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let pairs = vec((inner.clone(), inner.clone()), 0..3);
        prop_oneof![
            (select(vec!['*', '~']), vec(inner, 0..4)).prop_map(|(kind, parts)| [
                format!("{kind}{}\r\n", parts.len()).into_bytes(),
                parts.concat()
            ]
            .concat()),
            pairs.prop_map(|pairs| {
                let parts = pairs.iter().flat_map(|(key, value)| [key.clone(), value.clone()]);
                [format!("%{}\r\n", pairs.len()).into_bytes(), parts.collect::<Vec<_>>().concat()].concat()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn redis_rs_parses_every_value_to_the_same_result(bytes in encoded_values(), suffix in vec(any::<u8>(), 0..9)) {
        let expected = convert(::redis::parse_redis_value(&bytes).expect("redis-rs parses the bytes"));
        let all = [&bytes[..], &suffix].concat();
        prop_assert_eq!(parse_first(&all), Ok(Some((expected, bytes.len()))));
        for cut in 0..bytes.len() {
            prop_assert_eq!(parse_first(&bytes[..cut]), Ok(None), "cut at {}", cut);
        }
    }

    #[test]
    fn values_that_arrive_in_pieces_are_parsed_to_the_same_result(
        values in vec(encoded_values(), 1..4),
        cuts in vec(any::<Index>(), 0..9),
    ) {
        let bytes = values.concat();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
        ends.sort_unstable();
        let (mut parser, mut start, mut parsed) = (Parser::default(), 0, Vec::new());
        for end in ends {
            parser.buffer().extend_from_slice(&bytes[start..end]);
            start = end;
            while let Some(value) = parser.next().unwrap() {
                parsed.push(value);
            }
        }
        let expected: Vec<Value> = values.iter().map(|bytes| parse_first(bytes).unwrap().unwrap().0).collect();
        prop_assert_eq!(parsed, expected);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = parse_first(&bytes);
    }
}

#[test]
fn a_push_differs_from_an_array() {
    let parts = vec![Value::Text(b"message".into()), Value::Int(1)];
    assert_eq!(parse_first(b">2\r\n+message\r\n:1\r\n"), Ok(Some((Value::Push(parts), 18))));
    assert_eq!(parse_first(b">0\r\n"), Ok(Some((Value::Push(vec![]), 4))));
}

#[test]
fn bytes_that_are_not_resp_are_refused() {
    for bytes in [
        &b"?1\r\n"[..],
        b"|1\r\n",
        b"$x\r\n",
        b"$-2\r\n",
        b"$?\r\n",
        b"$1\r\nab\r\n",
        b"=3\r\ntxt\r\n",
        b":x\r\n",
        b":\r\n",
        b":9223372036854775808\r\n",
        b"*99999999999\r\n",
        b"$33554433\r\n",
        b"+a\n",
        b"\r\n",
        b"\n",
    ] {
        assert!(parse_first(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_value_over_a_limit_is_refused_before_it_has_arrived() {
    let half = VALUE_BYTES_MAX / 2;
    // Each text is short enough, but both together are not: the parser must not wait for the second text.
    let mut long_array = format!("*2\r\n${half}\r\n").into_bytes();
    long_array.resize(long_array.len() + half, b'a');
    long_array.extend(format!("\r\n${half}\r\n").bytes());
    assert_eq!(parse_first(&long_array), Err(TOO_LONG));
    let long_line = [b"+".as_slice(), &vec![b'a'; LINE_BYTES_MAX]].concat();
    assert_eq!(parse_first(&long_line[..LINE_BYTES_MAX - 1]), Ok(None));
    assert_eq!(parse_first(&long_line), Err("a line without an end"));
    // Each array has few enough parts, but all arrays together have too many.
    let wide_array = format!("*2\r\n*{half}\r\n{}*{half}\r\n", "_\r\n".repeat(PARTS_MAX / 2), half = PARTS_MAX / 2);
    assert_eq!(parse_first(wide_array.as_bytes()), Err("a value of too many parts"));
    assert_eq!(parse_first(format!("%{PARTS_MAX}\r\n").as_bytes()), Err("a value of too many parts"));
    // Dropping a value that is nested more deeply could overflow the stack.
    assert_eq!(parse_first("*1\r\n".repeat(DEPTH_MAX).as_bytes()), Ok(None));
    assert_eq!(parse_first("*1\r\n".repeat(DEPTH_MAX + 1).as_bytes()), Err("arrays that are nested too deeply"));
}
