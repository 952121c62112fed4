mod commands;

use ::redis::Value as Theirs;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// The first value in these bytes, and how many of them are its own.
fn first(bytes: &[u8]) -> Result<Option<(Value, usize)>, &'static str> {
    let mut parser = Parser::default();
    parser.buffer().extend_from_slice(bytes);
    Ok(parser.next()?.map(|value| (value, parser.at)))
}

/// A value of redis-rs as ours.
fn ours(value: Theirs) -> Value {
    let all = |parts: Vec<Theirs>| parts.into_iter().map(ours).collect();
    match value {
        Theirs::Nil => Value::Nil,
        Theirs::Okay => Value::Okay,
        Theirs::Int(number) => Value::Int(number),
        Theirs::BulkString(text) => Value::Text(text),
        Theirs::SimpleString(text) | Theirs::VerbatimString { text, .. } => Value::Text(text.into()),
        Theirs::Array(parts) => Value::Array(all(parts)),
        Theirs::Map(pairs) => Value::Map(pairs.into_iter().flat_map(|(key, value)| [ours(key), ours(value)]).collect()),
        Theirs::ServerError(error) => {
            let details = error.details().map(|details| format!(" {details}"));
            Value::Error(format!("{}{}", error.code(), details.unwrap_or_default()))
        }
        _ => Value::Other,
    }
}

fn bulk(kind: char, text: &[u8]) -> Vec<u8> {
    [format!("{kind}{}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// Values of every kind, inside each other.
fn values() -> impl Strategy<Value = Vec<u8>> {
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
    fn a_value_means_what_it_means_to_redis_rs(bytes in values(), behind in vec(any::<u8>(), 0..9)) {
        let expected = ours(::redis::parse_redis_value(&bytes).expect("redis-rs reads it"));
        let all = [&bytes[..], &behind].concat();
        prop_assert_eq!(first(&all), Ok(Some((expected, bytes.len()))));
        for cut in 0..bytes.len() {
            prop_assert_eq!(first(&bytes[..cut]), Ok(None), "cut at {}", cut);
        }
    }

    #[test]
    fn the_pieces_in_which_values_arrive_make_no_difference(
        values in vec(values(), 1..4),
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
        let expected: Vec<Value> = values.iter().map(|bytes| first(bytes).unwrap().unwrap().0).collect();
        prop_assert_eq!(parsed, expected);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in vec(any::<u8>(), 0..64)) {
        let _ = first(&bytes);
    }
}

#[test]
fn a_push_is_told_from_an_array() {
    let parts = vec![Value::Text(b"message".into()), Value::Int(1)];
    assert_eq!(first(b">2\r\n+message\r\n:1\r\n"), Ok(Some((Value::Push(parts), 18))));
    assert_eq!(first(b">0\r\n"), Ok(Some((Value::Push(vec![]), 4))));
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
        assert!(first(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_value_over_a_limit_is_refused_before_it_has_arrived() {
    let half = VALUE_BYTES_MAX / 2;
    // Each part is short enough, the whole is not: the second part need not arrive.
    let mut long = format!("*2\r\n${half}\r\n").into_bytes();
    long.resize(long.len() + half, b'a');
    long.extend(format!("\r\n${half}\r\n").bytes());
    assert_eq!(first(&long), Err(TOO_LONG));
    let line = [b"+".as_slice(), &vec![b'a'; LINE_BYTES_MAX]].concat();
    assert_eq!(first(&line[..LINE_BYTES_MAX - 1]), Ok(None));
    assert_eq!(first(&line), Err("a line without an end"));
    // Few enough at each level, and a flood in all.
    let wide = format!("*2\r\n*{most}\r\n{}*{most}\r\n", "_\r\n".repeat(PARTS_MAX / 2), most = PARTS_MAX / 2);
    assert_eq!(first(wide.as_bytes()), Err("a value of too many parts"));
    assert_eq!(first(format!("%{PARTS_MAX}\r\n").as_bytes()), Err("a value of too many parts"));
    // Dropping such a value would use up the stack.
    assert_eq!(first("*1\r\n".repeat(DEPTH_MAX).as_bytes()), Ok(None));
    assert_eq!(first("*1\r\n".repeat(DEPTH_MAX + 1).as_bytes()), Err("arrays that are nested too deeply"));
}
