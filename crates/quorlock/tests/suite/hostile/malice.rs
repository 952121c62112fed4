//! Invalid replies of every kind.

use super::fake::{Deed, grant, now, proposal};
use super::resp::{array, bulk, group, int, push};
use crate::common::draw::Draw;

/// A misbehaviour with its name.
pub(crate) type Malice = (String, Deed);

/// Replies that are no valid grants: none of them may win a vote.
pub(crate) fn malformed(draw: &mut Draw) -> Vec<Malice> {
    let mut all: Vec<Malice> = Vec::new();
    let mut add = |name: &str, deed: Deed| all.push((name.to_owned(), deed));
    for (name, said) in [
        ("nothing but a line end", "\r\n"),
        ("an answer of another protocol", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
        ("an unknown type", "?1\r\n"),
        ("a line that ends with half of its end", ":1\n"),
        ("a yes in a word", "+YES\r\n"),
        ("a yes of the page", "+ok\r\n"),
        ("a yes as text", "$2\r\nOK\r\n"),
        ("a yes as a verbatim text", "=6\r\ntxt:OK\r\n"),
        ("a big number", "(18446744073709551617\r\n"),
        ("a truth", "#t\r\n"),
        ("half a truth", "#x\r\n"),
        ("a number that is none", ",nan\r\n"),
        ("one and a half", ",1.5\r\n"),
        ("nothing", "_\r\n"),
        ("nothing, as it used to be", "$-1\r\n"),
        ("no list", "*-1\r\n"),
        ("an empty list", "*0\r\n"),
        ("an empty map", "%0\r\n"),
        ("an empty set", "~0\r\n"),
        ("an attribute of nothing", "|0\r\n_\r\n"),
        ("a number without digits", ":\r\n"),
        ("a number with a sign too many", ":+-1\r\n"),
        ("a number that is too large", ":9223372036854775808\r\n"),
        ("a length that is negative", "$-2\r\n"),
        ("a length of a map that is negative", "%-1\r\n"),
        ("a length of an attribute that is negative", "|-1\r\n:1\r\n"),
        ("a length of a text that is negative", "=-1\r\n"),
        ("a length with a sign", "*+1\r\n:1\r\n"),
        ("a length that streams", "$?\r\n;2\r\nOK\r\n;0\r\n"),
        ("a length beyond a machine", "$18446744073709551615\r\n"),
        ("a length at the edge of one", "$9223372036854775807\r\n"),
        ("a list beyond a machine", "*9223372036854775807\r\n:1\r\n"),
        ("a map whose twice is too many", "%9223372036854775807\r\n"),
        ("a text that is longer than it says", "*3\r\n$1\r\n11\r\n:9\r\n:9\r\n"),
        ("an error without words", "-\r\n"),
        ("an error in bytes", "!3\r\n\0\r\n\r\n"),
        ("an error that talks to terminals", "-ERR \u{1b}[2J\u{7}gone\r\n"),
        ("an error in the words of a script", "-ERR user_script:1: 1 OK\r\n"),
    ] {
        add(name, Deed::Say(said.into()));
    }
    add("text that is not text", Deed::Say(b"$2\r\n\xff\xfe\r\n".to_vec()));
    add("a line that is not text", Deed::Say(b"+\xff\xfe\r\n".to_vec()));
    for (name, mangle) in MANGLED {
        add(name, Deed::mangle(mangle));
    }
    for depth in [3, 99, 100, 101, 10_000, 400_000] {
        add(&format!("lists in lists, {depth} deep"), Deed::Say([b"*1\r\n".repeat(depth), int(1)].concat()));
    }
    add("maps in maps", Deed::Say([b"%1\r\n:1\r\n".repeat(5_000), int(1)].concat()));
    add("attributes of attributes", Deed::Say([b"|1\r\n:1\r\n:1\r\n".repeat(5_000), int(1)].concat()));
    for run in 0..20 {
        let bytes = (0..draw.below(200)).map(|_| draw.below(256) as u8).collect();
        add(&format!("random bytes, {run}"), Deed::SayAndLeave(bytes));
    }
    for run in 0..20 {
        let alphabet = b"*$:+-%|~>#,(=!_0123456789\r\n\r\n\r\n";
        let bytes = (0..draw.below(200)).map(|_| alphabet[draw.below(alphabet.len())]).collect();
        add(&format!("random pieces of RESP, {run}"), Deed::SayAndLeave(bytes));
    }
    let whole = array(&[int(1), int(now()), int(now())]);
    for cut in 0..whole.len() {
        add(&format!("a grant cut after {cut} bytes"), Deed::SayAndLeave(whole[..cut].to_vec()));
    }
    all
}

/// Replies that are nearly grants.
type Mangle = fn(&[Vec<u8>]) -> Vec<u8>;
const MANGLED: [(&str, Mangle); 13] = [
    ("a grant without a fence", |_| array(&[int(1), int(now())])),
    ("a grant without a time", |words| array(&[int(1), int(proposal(words))])),
    ("a grant with a part too many", |words| array(&[int(1), int(now()), int(proposal(words)), int(0)])),
    ("a grant with an unknown code", |words| array(&[int(2), int(now()), int(proposal(words))])),
    ("a grant with its code in a text", |words| array(&[bulk("1"), int(now()), int(proposal(words))])),
    ("a grant with its fence in a text", |words| array(&[int(1), int(now()), bulk(&proposal(words).to_string())])),
    ("a grant below nothing", |_| array(&[int(1), int(now()), int(-1)])),
    ("a grant of the last number", |_| array(&[int(1), int(now()), int(i64::MIN)])),
    ("a grant before time", |words| array(&[int(1), int(-1), int(proposal(words))])),
    ("a grant as a set", |words| group('~', &[int(1), int(now()), int(proposal(words))])),
    ("a grant inside a list", |words| array(&[grant(words)])),
    ("a grant in a push", |words| push(&[bulk("message"), int(1), int(now()), int(proposal(words))])),
    ("a grant of a slot", |words| array(&[int(1), int(now()), int(proposal(words)), int(0), array(&[])])),
];

/// Messages that answer no request, next to an invalid reply.
pub(crate) fn unasked(channel_like: &str) -> Vec<Malice> {
    let refusal = array(&[int(0), int(now()), int(i64::MAX), int(i64::MAX), bulk(""), int(1), int(1), int(0)]);
    let message = |on: &str, said: &str| push(&[bulk("message"), bulk(on), bulk(said)]);
    [
        ("a push of nothing", vec![push(&[])]),
        ("a push of a push", vec![push(&[bulk("message"), push(&[bulk("message")])])]),
        ("a push of a number", vec![push(&[int(1)])]),
        ("a hint on no channel", vec![message("", "")]),
        ("a hint that is no ticket", vec![message(channel_like, "\u{1b}[2J")]),
        ("a break of everything", vec![message("quorlock~broken", "quorlock:job"); 100]),
        ("a break of no key", vec![message("quorlock~broken", "")]),
        ("an end of listening", vec![push(&[bulk("unsubscribe"), bulk(channel_like), int(0)])]),
        ("an invalidation", vec![push(&[bulk("invalidate"), b"_\r\n".to_vec()])]),
    ]
    .map(|(name, pushes)| (name.to_owned(), Deed::Say([pushes.concat(), refusal.clone()].concat())))
    .to_vec()
}

/// Well-formed replies with impossible values.
pub(crate) fn exaggerated() -> Vec<Malice> {
    let held = |at, left, fence, place, waiting, lower| {
        Deed::Say(array(&[
            int(0),
            int(at),
            int(left),
            int(fence),
            bulk("7 host label"),
            int(place),
            int(waiting),
            int(lower),
        ]))
    };
    let most = i64::from(u32::MAX);
    [
        ("held for ever", held(now(), i64::MAX, now(), 1, 1, 0)),
        ("held since for ever, by a clock at its end", held(i64::MAX, i64::MAX, i64::MAX, 1, 1, 0)),
        ("held by a clock at its beginning", held(0, 0, 0, 0, 0, 0)),
        ("held, with a line beyond counting", held(now(), -1, i64::MAX, most, most, 1)),
        (
            "behind a line beyond counting",
            Deed::Say(array(&[int(-5), int(now()), int(i64::MAX), int(most), int(most), int(1)])),
        ),
        ("too far ahead of a clock at its end", Deed::Say(array(&[int(-3), int(i64::MAX)]))),
        ("another number of permits", Deed::Say(array(&[int(-7), int(now()), int(most)]))),
    ]
    .map(|(name, deed)| (name.to_owned(), deed))
    .to_vec()
}
