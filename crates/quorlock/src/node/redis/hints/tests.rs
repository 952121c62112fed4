use super::*;

const CHANNEL: Channel = Channel(7);

fn bulk(text: &str) -> Value {
    Value::Text(text.into())
}

fn message(channel: &str, text: &str) -> Vec<Value> {
    ["message", channel, text].map(bulk).into()
}

#[test]
fn a_ticket_on_the_channel_of_the_client_is_a_hint() {
    let ticket = Ticket { at: 1_700_000_000_000_000, id: 0xff };
    let push = message(&hint_channel(CHANNEL), &ticket.to_string());
    assert_eq!(parse_push(CHANNEL, &push), Some(Answer::Hint(ticket, None)));
}

#[test]
fn a_key_on_the_broken_channel_is_a_broken_lock() {
    let push = message("quorlock~broken", "quorlock:a b");
    assert_eq!(parse_push(CHANNEL, &push), Some(Answer::Broken("quorlock:a b".into())));
}

#[test]
fn every_other_push_is_ignored() {
    let own_channel = hint_channel(CHANNEL);
    let ticket_text = Ticket { at: 1, id: 2 }.to_string();
    let push = |kind, data: &[Value]| [&[bulk(kind)], data].concat();
    for push in [
        message(&hint_channel(Channel(8)), &ticket_text),
        message(&own_channel, ""),
        message(&own_channel, "1-2"),
        message(&own_channel, "99999999999999999999-0000000000000002"),
        push("message", &[bulk(&own_channel), Value::Text(vec![0xff; 18])]),
        push("message", &[bulk(&own_channel), Value::Int(1)]),
        push("message", &[bulk(&own_channel)]),
        push("message", &[]),
        push("pmessage", &[bulk(&own_channel), bulk(&ticket_text)]),
        push("subscribe", &[bulk(&own_channel), Value::Int(1)]),
        push("", &[]),
        push("what", &[bulk(&own_channel), bulk(&ticket_text)]),
    ] {
        assert_eq!(parse_push(CHANNEL, &push), None, "{push:?}");
    }
}
