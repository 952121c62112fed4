use super::*;

const CHANNEL: Channel = Channel(7);

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn message(on: &str, said: &str) -> PushInfo {
    PushInfo { kind: PushKind::Message, data: vec![bulk(on), bulk(said)] }
}

#[test]
fn nobody_listens_on_channel_0() {
    assert_eq!(wanted(&Hints::new(Channel(0)).0), None);
    assert_eq!(wanted(&Hints::new(CHANNEL).0), Some("quorlock~hint:00000000000000000000000000000007".into()));
}

#[test]
fn a_ticket_on_ones_own_channel_is_a_hint() {
    let (hints, mut heard) = Hints::new(CHANNEL);
    let ticket = Ticket { at: 1_700_000_000_000_000, id: 0xff };
    ear(hint_channel(CHANNEL), hints)(message(&hint_channel(CHANNEL), &ticket.to_string())).unwrap();
    assert_eq!(heard.try_recv(), Ok(ticket));
}

#[test]
fn anything_else_that_is_pushed_is_ignored() {
    let (hints, mut heard) = Hints::new(CHANNEL);
    let own = hint_channel(CHANNEL);
    let ear = ear(own.clone(), hints);
    let said = Ticket { at: 1, id: 2 }.to_string();
    let push = |kind, data: &[Value]| PushInfo { kind, data: data.to_vec() };
    for push in [
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
        ear(push).unwrap();
    }
    assert!(heard.try_recv().is_err());
}
