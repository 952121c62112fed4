use ::redis::parse_redis_value;
use proptest::prelude::*;

use super::measure;

/// Values of every kind, inside each other.
fn values() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        "[ -~]{0,9}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
        "ERR [ -~]{0,9}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        Just(b"_\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*-1\r\n".to_vec()),
        Just(b"#t\r\n".to_vec()),
        Just(b",1.5\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| bulk(b'$', &bytes)),
        "[ -~]{0,9}".prop_map(|text| bulk(b'=', format!("txt:{text}").as_bytes())),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|parts| group(b'*', 1, &parts)),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|parts| group(b'~', 1, &parts)),
            proptest::collection::vec((inner.clone(), inner), 0..3).prop_map(|pairs| group(
                b'%',
                2,
                &pairs.into_iter().flat_map(|(a, b)| [a, b]).collect::<Vec<_>>()
            )),
        ]
    })
}

fn bulk(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes.len().to_string().as_bytes(), b"\r\n", bytes, b"\r\n"].concat()
}

fn group(kind: u8, each: usize, parts: &[Vec<u8>]) -> Vec<u8> {
    [&[kind], (parts.len() / each).to_string().as_bytes(), b"\r\n", &parts.concat()].concat()
}

proptest! {
    #[test]
    fn a_value_ends_where_the_parser_ends(value in values(), behind in proptest::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = value.clone();
        bytes.extend(behind);
        prop_assert_eq!(measure(&bytes), Ok(Some(value.len())));
        prop_assert!(parse_redis_value(&value).is_ok());
        for cut in 0..value.len() {
            prop_assert_eq!(measure(&value[..cut]), Ok(None), "cut at {}", cut);
        }
    }

    #[test]
    fn whatever_comes_is_measured_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = measure(&bytes);
    }
}

#[test]
fn what_is_not_resp_is_told() {
    for bytes in [&b"?1\r\n"[..], b"$x\r\n", b"$-2\r\n", b"*99999999999\r\n", b"$67108865\r\n", b"+a\n", b"\r\n", b"\n"]
    {
        assert!(measure(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
}
