use super::*;

const CHANNEL: Channel = Channel(7);

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn message(on: &str, said: &str) -> (PushKind, Vec<Value>) {
    (PushKind::Message, vec![bulk(on), bulk(said)])
}

fn inbox(channel: Channel) -> Inbox {
    Inbox::queue(channel).0
}

#[test]
fn nobody_listens_on_channel_0() {
    assert_eq!(wanted(&inbox(Channel(0))).channels, Vec::<String>::new());
    assert_eq!(wanted(&inbox(CHANNEL)).channels, ["quorlock~hint:00000000000000000000000000000007", "quorlock~broken"]);
}

#[test]
fn a_ticket_on_ones_own_channel_is_a_hint() {
    let ticket = Ticket { at: 1_700_000_000_000_000, id: 0xff };
    let (kind, data) = message(&hint_channel(CHANNEL), &ticket.to_string());
    assert_eq!(heard(CHANNEL, &kind, &data), Some(Answer::Hint(ticket, None)));
}

#[test]
fn a_key_on_the_channel_of_all_was_broken() {
    let (kind, data) = message("quorlock~broken", "quorlock:a b");
    assert_eq!(heard(CHANNEL, &kind, &data), Some(Answer::Broken("quorlock:a b".into())));
}

#[test]
fn anything_else_that_is_pushed_is_ignored() {
    let own = hint_channel(CHANNEL);
    let said = Ticket { at: 1, id: 2 }.to_string();
    let push = |kind, data: &[Value]| (kind, data.to_vec());
    for (kind, data) in [
        message(&hint_channel(Channel(8)), &said),
        message(&own, ""),
        message(&own, "1-2"),
        message(&own, "99999999999999999999-0000000000000002"),
        push(PushKind::Message, &[bulk(&own), Value::BulkString(vec![0xff; 18])]),
        push(PushKind::Message, &[bulk(&own), Value::Int(1)]),
        push(PushKind::Message, &[bulk(&own)]),
        push(PushKind::Message, &[]),
        push(PushKind::PMessage, &[bulk(&own), bulk(&said)]),
        push(PushKind::Subscribe, &[bulk(&own), Value::Int(1)]),
        push(PushKind::Disconnection, &[]),
        push(PushKind::Other("what".into()), &[bulk(&own), bulk(&said)]),
    ] {
        assert_eq!(heard(CHANNEL, &kind, &data), None, "{kind:?} {data:?}");
    }
}
