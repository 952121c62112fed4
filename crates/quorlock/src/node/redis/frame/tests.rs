use ::redis::parse_redis_value;
use proptest::prelude::*;

use super::*;

/// The length of the first value in these bytes, of which none have been seen before.
fn measure(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    Measure::default().look(bytes)
}

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
    fn it_makes_no_difference_in_which_pieces_values_come(
        values in proptest::collection::vec(values(), 1..4),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..9),
    ) {
        let bytes = values.concat();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
        ends.sort_unstable();
        let (mut measure, mut taken, mut lengths) = (Measure::default(), 0, Vec::new());
        for end in ends {
            while let Some(length) = measure.look(&bytes[taken..end]).unwrap() {
                lengths.push(length);
                taken += length;
            }
        }
        prop_assert_eq!(lengths, values.iter().map(Vec::len).collect::<Vec<_>>());
    }

    #[test]
    fn whatever_comes_is_measured_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = measure(&bytes);
    }
}

#[test]
fn what_is_not_resp_is_told() {
    for bytes in [&b"?1\r\n"[..], b"$x\r\n", b"$-2\r\n", b"*99999999999\r\n", b"$33554433\r\n", b"+a\n", b"\r\n", b"\n"]
    {
        assert!(measure(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn what_is_longer_than_anything_we_ask_for_is_told_before_it_is_there() {
    let half = VALUE_BYTES_MAX / 2;
    // Each part is short enough, the whole is not: the second part need not come.
    let mut long = format!("*2\r\n${half}\r\n").into_bytes();
    long.resize(long.len() + half, b'a');
    long.extend(format!("\r\n${half}\r\n").bytes());
    assert_eq!(measure(&long), Err("a value that is too long"));
    let line = [b"+".as_slice(), &vec![b'a'; LINE_BYTES_MAX]].concat();
    assert_eq!(measure(&line[..LINE_BYTES_MAX - 1]), Ok(None));
    assert_eq!(measure(&line), Err("a line without an end"));
    // Few enough at each level, and a flood in all.
    let wide = format!("*2\r\n*{most}\r\n{}*{most}\r\n", "_\r\n".repeat(PARTS_MAX / 2), most = PARTS_MAX / 2);
    assert_eq!(measure(wide.as_bytes()), Err("a value of too many parts"));
    assert_eq!(measure(format!("%{PARTS_MAX}\r\n").as_bytes()), Err("a value of too many parts"));
}
