//! A minimal RESP3 encoder and parser.

pub(crate) fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

pub(crate) fn int(number: i64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

pub(crate) fn array(parts: &[Vec<u8>]) -> Vec<u8> {
    group('*', parts)
}

pub(crate) fn push(parts: &[Vec<u8>]) -> Vec<u8> {
    group('>', parts)
}

/// An aggregate (array, set or push) with the type byte `kind`.
pub(crate) fn group(kind: char, parts: &[Vec<u8>]) -> Vec<u8> {
    [format!("{kind}{}\r\n", parts.len()).into_bytes(), parts.concat()].concat()
}

/// Parses the first command in these bytes. Returns its words and its length, or `None` if the command is not complete.
pub(crate) fn parse_command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let count = parse_number(bytes, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = parse_number(bytes, &mut at, b'$')?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// Parses a number with the type byte `kind` at the position `at`. Moves `at` to the end of the number.
fn parse_number(bytes: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = bytes.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], kind, "a client sends a command as an array of bulk strings");
    *at += end + 2;
    std::str::from_utf8(&rest[1..end]).ok()?.parse().ok()
}
