use super::*;

const CHANNEL: Channel = Channel(7);

fn bulk(text: &str) -> Value {
    Value::Text(text.into())
}

fn message(on: &str, said: &str) -> Vec<Value> {
    ["message", on, said].map(bulk).into()
}

#[test]
fn a_ticket_on_ones_own_channel_is_a_hint() {
    let ticket = Ticket { at: 1_700_000_000_000_000, id: 0xff };
    let push = message(&hint_channel(CHANNEL), &ticket.to_string());
    assert_eq!(heard(CHANNEL, &push), Some(Answer::Hint(ticket, None)));
}

#[test]
fn a_key_on_the_channel_of_all_was_broken() {
    let push = message("quorlock~broken", "quorlock:a b");
    assert_eq!(heard(CHANNEL, &push), Some(Answer::Broken("quorlock:a b".into())));
}

#[test]
fn anything_else_that_is_pushed_is_ignored() {
    let own = hint_channel(CHANNEL);
    let said = Ticket { at: 1, id: 2 }.to_string();
    let push = |kind, data: &[Value]| [&[bulk(kind)], data].concat();
    for push in [
        message(&hint_channel(Channel(8)), &said),
        message(&own, ""),
        message(&own, "1-2"),
        message(&own, "99999999999999999999-0000000000000002"),
        push("message", &[bulk(&own), Value::Text(vec![0xff; 18])]),
        push("message", &[bulk(&own), Value::Int(1)]),
        push("message", &[bulk(&own)]),
        push("message", &[]),
        push("pmessage", &[bulk(&own), bulk(&said)]),
        push("subscribe", &[bulk(&own), Value::Int(1)]),
        push("", &[]),
        push("what", &[bulk(&own), bulk(&said)]),
    ] {
        assert_eq!(heard(CHANNEL, &push), None, "{push:?}");
    }
}
