use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Generates bytes that consist of the `known` pieces, and sometimes of random bytes.
fn pieces(known: &[&'static str]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let known = select(known.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
    let piece = prop_oneof![12 => known, 1 => vec(any::<u8>(), 0..6), 1 => ".{0,4}".prop_map(String::into_bytes)];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const RESP_PIECES: [&str; 38] = [
    "*3\r\n",
    "*2\r\n",
    "*1\r\n",
    "*8\r\n",
    "*15\r\n",
    ":1\r\n",
    ":1\r\n",
    ":0\r\n",
    ":-1\r\n",
    ":-5\r\n",
    ":7\r\n",
    "+OK\r\n",
    "$2\r\nOK\r\n",
    "_\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "(7\r\n",
    "%1\r\n",
    "|1\r\n",
    "~2\r\n",
    ">3\r\n",
    "$7\r\nmessage\r\n",
    "-ERR no\r\n",
    "!5\r\nERR a\r\n",
    "=6\r\ntxt:ab\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "$0\r\n\r\n",
    "$1\r\nx\r\n",
    "*",
    "$",
    "\r\n",
    "\n",
    "1",
    "9",
    "-NOSCRIPT\r\n",
    "$35\r\n0000000000000000000000000000000e 7\r\n",
];
const LEASE_PIECES: [&str; 22] = [
    "q1.",
    "q2.",
    ".",
    ".",
    ".",
    "name",
    "%2f",
    "%",
    "%zz",
    "%ff",
    "00000000000000000000000000000007",
    "7",
    "-",
    "1000",
    "99",
    "x",
    "w:",
    "k:1/3",
    "k:3/3",
    "7%20host%20label",
    "811c9dc5",
    " ",
];
const URL_PIECES: [&str; 29] = [
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "redis+cluster://",
    "unix:",
    "redis+unix:",
    "u",
    ":",
    "@",
    "host",
    "[::1]",
    "127.0.0.1",
    ":6379",
    ":65536",
    ":-1",
    "/",
    "0",
    "/99999999999",
    "?",
    "tls=true",
    "protocol=resp3",
    "#insecure",
    ",",
    "%40",
    "%",
    "mymaster",
    " ",
    "//",
    "&",
];

proptest! {
    #[test]
    fn an_answer_is_a_grant_only_if_its_bytes_are_a_grant(
        start in select(vec!["", "*3\r\n:1\r\n:7\r\n", "*4\r\n:1\r\n:7\r\n:7\r\n", "*5\r\n:1\r\n:7\r\n:7\r\n:1\r\n"]),
        rest in pieces(&RESP_PIECES),
    ) {
        answer(&[start.as_bytes(), &rest].concat());
    }

    #[test]
    fn a_text_is_rejected_or_read_as_the_lease_that_it_contains(bytes in pieces(&LEASE_PIECES)) {
        lease(&bytes);
        // Add a correct checksum, because random bytes hardly ever end with one.
        let body = String::from_utf8_lossy(&bytes);
        lease(format!("{body}.{}", crate::detached::checksum(&body)).as_bytes());
    }

    #[test]
    fn a_name_is_rejected_or_its_key_is_converted_back_to_the_name(
        bytes in pieces(&["quorlock~", "quorlock:", "{", "}", "{name}", "a", "/", "\0", "%", ".", " "]),
    ) {
        name(&bytes);
        name(&bytes.repeat(40));
    }

    #[test]
    fn neither_a_title_nor_an_error_shows_the_password_of_a_url(bytes in pieces(&URL_PIECES)) {
        url(&bytes);
    }
}
