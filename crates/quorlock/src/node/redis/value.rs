//! Values out of the bytes that a server sends.

use ::redis::{RedisError, Value, parse_redis_value};

/// Reads a whole value. What votes are made of is read here, in one go; everything else by redis-rs, to whom all of it
/// means the same.
pub(super) fn read(bytes: &[u8]) -> Result<Value, RedisError> {
    match vote(bytes) {
        Some((value, [])) => Ok(value),
        _ => parse_redis_value(bytes),
    }
}

/// The parts of an answer that are read here at most: as many as a bundle may have, and what is before them.
const PARTS_MAX: usize = 129;

/// A number, a text, `OK`, nothing, or a short list of those; and the bytes behind it.
fn vote(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let Some(rest) = bytes.strip_prefix(b"*") else { return part(bytes) };
    let (count, mut rest) = line(rest)?;
    let count = usize::try_from(number(count)?).ok().filter(|count| *count <= PARTS_MAX)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let (value, behind) = part(rest)?;
        parts.push(value);
        rest = behind;
    }
    Some((Value::Array(parts), rest))
}

fn part(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (first, rest) = line(rest)?;
    match (kind, first) {
        (b':', digits) => Some((Value::Int(number(digits)?), rest)),
        (b'+', b"OK") => Some((Value::Okay, rest)),
        (b'_', b"") | (b'$', b"-1") => Some((Value::Nil, rest)),
        (b'$', digits) => {
            let (text, rest) = rest.split_at_checked(usize::try_from(number(digits)?).ok()?)?;
            Some((Value::BulkString(text.to_vec()), rest.strip_prefix(b"\r\n")?))
        }
        _ => None,
    }
}

/// Up to the end of the queue, and what is behind it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    let (line, rest) = bytes.split_at(end);
    Some((line, rest.strip_prefix(b"\r\n")?))
}

/// The longest numbers that cannot be too large.
const DIGITS_MAX: usize = 18;

fn number(digits: &[u8]) -> Option<i64> {
    let (sign, digits) = match digits.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(sign * digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some of them are not as they should be.
    const ODDS: &[&[u8]] = &[
        b"+OK\r\n",
        b"_\r\n",
        b"$-1\r\n",
        b"+QUEUED\r\n",
        b"-ERR no\r\n",
        b"#t\r\n",
        b":\r\n",
        b":+1\r\n",
        b":01\r\n",
        b":-\r\n",
        b"$1\r\n\r\n",
        b"$-2\r\n",
        b"$0\r\n",
        b"_x\r\n",
        b"+O",
    ];

    fn leaf() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            (-9_i64..9).prop_map(|number| format!(":{number}\r\n").into_bytes()),
            prop::collection::vec(any::<u8>(), 0..20).prop_map(|text| [
                format!("${}\r\n", text.len()).as_bytes(),
                &text,
                b"\r\n"
            ]
            .concat()),
            prop::sample::select(ODDS).prop_map(<[u8]>::to_vec),
        ]
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        leaf().prop_recursive(2, 40, 20, |inner| {
            (prop::collection::vec(inner, 0..20), -1..3_i64).prop_map(|(parts, odd)| {
                let count = if odd == 0 { "-1".into() } else { parts.len().to_string() };
                [format!("*{count}\r\n").into_bytes(), parts.concat()].concat()
            })
        })
    }

    proptest! {
        #[test]
        fn every_value_means_what_it_means_to_redis_rs(bytes in value()) {
            if let Some((quick, [])) = vote(&bytes) {
                prop_assert_eq!(quick, parse_redis_value(&bytes).expect("redis-rs reads it, too"));
            }
        }
    }

    #[test]
    fn a_vote_is_read_in_one_go() {
        let bytes = b"*3\r\n:1\r\n:1794827138438658\r\n$2\r\nme\r\n";
        let parts = vec![Value::Int(1), Value::Int(1_794_827_138_438_658), Value::BulkString(b"me".to_vec())];
        assert_eq!(vote(bytes), Some((Value::Array(parts), &[][..])));
    }
}
