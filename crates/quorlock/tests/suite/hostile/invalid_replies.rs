//! Invalid replies: malformed replies, unrequested replies, and well-formed replies with impossible values.

use super::fake::{Behavior, grant, now, proposal};
use super::resp::{array, bulk, group, int, push};
use crate::common::random::Random;

/// The name of the case, and the behavior of the fake node.
pub(crate) type InvalidReply = (String, Behavior);

/// Replies that are not valid grants. None of them may count as a vote.
pub(crate) fn malformed_replies(random: &mut Random) -> Vec<InvalidReply> {
    let mut replies: Vec<InvalidReply> = Vec::new();
    let mut add = |name: &str, behavior: Behavior| replies.push((name.to_owned(), behavior));
    for (name, reply) in [
        ("an empty line", "\r\n"),
        ("an HTTP response", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"),
        ("an unknown type", "?1\r\n"),
        ("a line that ends with LF instead of CRLF", ":1\n"),
        ("an unknown status", "+YES\r\n"),
        ("the status OK in lower case", "+ok\r\n"),
        ("OK as a bulk string", "$2\r\nOK\r\n"),
        ("OK as a verbatim string", "=6\r\ntxt:OK\r\n"),
        ("a big number", "(18446744073709551617\r\n"),
        ("a boolean", "#t\r\n"),
        ("an invalid boolean", "#x\r\n"),
        ("NaN", ",nan\r\n"),
        ("a double", ",1.5\r\n"),
        ("a null", "_\r\n"),
        ("a RESP2 null", "$-1\r\n"),
        ("a null array", "*-1\r\n"),
        ("an empty list", "*0\r\n"),
        ("an empty map", "%0\r\n"),
        ("an empty set", "~0\r\n"),
        ("an empty attribute before a null", "|0\r\n_\r\n"),
        ("a number without digits", ":\r\n"),
        ("a number with two signs", ":+-1\r\n"),
        ("a number that is too large", ":9223372036854775808\r\n"),
        ("a negative length of a bulk string", "$-2\r\n"),
        ("a negative length of a map", "%-1\r\n"),
        ("a negative length of an attribute", "|-1\r\n:1\r\n"),
        ("a negative length of a verbatim string", "=-1\r\n"),
        ("a length with a plus sign", "*+1\r\n:1\r\n"),
        ("a streamed string", "$?\r\n;2\r\nOK\r\n;0\r\n"),
        ("a length of 64 bits", "$18446744073709551615\r\n"),
        ("a length of 63 bits", "$9223372036854775807\r\n"),
        ("a list with a length of 63 bits", "*9223372036854775807\r\n:1\r\n"),
        ("a map with more elements than 64 bits can count", "%9223372036854775807\r\n"),
        ("a string that is longer than its length", "*3\r\n$1\r\n11\r\n:9\r\n:9\r\n"),
        ("an empty error", "-\r\n"),
        ("a bulk error with a zero byte", "!3\r\n\0\r\n\r\n"),
        ("an error with terminal control characters", "-ERR \u{1b}[2J\u{7}gone\r\n"),
        ("an error of a script that contains OK", "-ERR user_script:1: 1 OK\r\n"),
    ] {
        add(name, Behavior::Send(reply.into()));
    }
    add("a bulk string that is not UTF-8", Behavior::Send(b"$2\r\n\xff\xfe\r\n".to_vec()));
    add("a status that is not UTF-8", Behavior::Send(b"+\xff\xfe\r\n".to_vec()));
    for (name, reply) in NEARLY_VALID_GRANTS {
        add(name, Behavior::compute(reply));
    }
    for depth in [3, 99, 100, 101, 10_000, 400_000] {
        add(&format!("nested lists, {depth} deep"), Behavior::Send([b"*1\r\n".repeat(depth), int(1)].concat()));
    }
    add("nested maps", Behavior::Send([b"%1\r\n:1\r\n".repeat(5_000), int(1)].concat()));
    add("attributes of attributes", Behavior::Send([b"|1\r\n:1\r\n:1\r\n".repeat(5_000), int(1)].concat()));
    for number in 0..20 {
        let bytes = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        add(&format!("random bytes, {number}"), Behavior::SendAndClose(bytes));
    }
    for number in 0..20 {
        let alphabet = b"*$:+-%|~>#,(=!_0123456789\r\n\r\n\r\n";
        let bytes = (0..random.below(200)).map(|_| alphabet[random.below(alphabet.len())]).collect();
        add(&format!("random pieces of RESP, {number}"), Behavior::SendAndClose(bytes));
    }
    let grant_bytes = array(&[int(1), int(now()), int(now())]);
    for length in 0..grant_bytes.len() {
        add(&format!("a grant cut after {length} bytes"), Behavior::SendAndClose(grant_bytes[..length].to_vec()));
    }
    replies
}

/// Makes a reply to a command.
type MakeReply = fn(&[Vec<u8>]) -> Vec<u8>;
/// Replies that are nearly grants.
const NEARLY_VALID_GRANTS: [(&str, MakeReply); 13] = [
    ("a grant without a fence", |_| array(&[int(1), int(now())])),
    ("a grant without a time", |words| array(&[int(1), int(proposal(words))])),
    ("a grant with one part too many", |words| array(&[int(1), int(now()), int(proposal(words)), int(0)])),
    ("a grant with an unknown code", |words| array(&[int(2), int(now()), int(proposal(words))])),
    ("a grant with its code as a string", |words| array(&[bulk("1"), int(now()), int(proposal(words))])),
    ("a grant with its fence as a string", |words| array(&[int(1), int(now()), bulk(&proposal(words).to_string())])),
    ("a grant with a negative fence", |_| array(&[int(1), int(now()), int(-1)])),
    ("a grant of the lowest 64-bit number", |_| array(&[int(1), int(now()), int(i64::MIN)])),
    ("a grant with a negative time", |words| array(&[int(1), int(-1), int(proposal(words))])),
    ("a grant as a set", |words| group('~', &[int(1), int(now()), int(proposal(words))])),
    ("a grant in a nested list", |words| array(&[grant(words)])),
    ("a grant in a push", |words| push(&[bulk("message"), int(1), int(now()), int(proposal(words))])),
    ("a grant with the parts of a slot", |words| {
        array(&[int(1), int(now()), int(proposal(words)), int(0), array(&[])])
    }),
];

/// Messages that answer no request. Each is followed by a refusal. The names of hint channels begin with
/// `channel_prefix`.
pub(crate) fn unrequested_messages(channel_prefix: &str) -> Vec<InvalidReply> {
    let refusal = array(&[int(0), int(now()), int(i64::MAX), int(i64::MAX), bulk(""), int(1), int(1), int(0)]);
    let message = |channel: &str, text: &str| push(&[bulk("message"), bulk(channel), bulk(text)]);
    [
        ("an empty push", vec![push(&[])]),
        ("a push in a push", vec![push(&[bulk("message"), push(&[bulk("message")])])]),
        ("a push of a number", vec![push(&[int(1)])]),
        ("a hint on a channel without a name", vec![message("", "")]),
        ("a hint that is no ticket", vec![message(channel_prefix, "\u{1b}[2J")]),
        ("100 messages that a lease is broken", vec![message("quorlock~broken", "quorlock:job"); 100]),
        ("a message that a lease without a key is broken", vec![message("quorlock~broken", "")]),
        ("the end of a subscription", vec![push(&[bulk("unsubscribe"), bulk(channel_prefix), int(0)])]),
        ("an invalidation", vec![push(&[bulk("invalidate"), b"_\r\n".to_vec()])]),
    ]
    .map(|(name, pushes)| (name.to_owned(), Behavior::Send([pushes.concat(), refusal.clone()].concat())))
    .to_vec()
}

/// Well-formed replies with impossible values.
pub(crate) fn impossible_values() -> Vec<InvalidReply> {
    let refusal = |clock, remaining, fence, position, waiting, has_lower| {
        Behavior::Send(array(&[
            int(0),
            int(clock),
            int(remaining),
            int(fence),
            bulk("7 host label"),
            int(position),
            int(waiting),
            int(has_lower),
        ]))
    };
    let max = i64::from(u32::MAX);
    [
        ("held for the longest time", refusal(now(), i64::MAX, now(), 1, 1, 0)),
        ("a refusal with the highest numbers", refusal(i64::MAX, i64::MAX, i64::MAX, 1, 1, 0)),
        ("a refusal with zeros", refusal(0, 0, 0, 0, 0, 0)),
        ("held, with the longest queue", refusal(now(), -1, i64::MAX, max, max, 1)),
        (
            "queued behind the longest queue",
            Behavior::Send(array(&[int(-5), int(now()), int(i64::MAX), int(max), int(max), int(1)])),
        ),
        ("a proposal too far ahead of the highest clock", Behavior::Send(array(&[int(-3), int(i64::MAX)]))),
        ("another number of permits", Behavior::Send(array(&[int(-7), int(now()), int(max)]))),
    ]
    .map(|(name, behavior)| (name.to_owned(), behavior))
    .to_vec()
}
