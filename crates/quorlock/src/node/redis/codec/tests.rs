use std::sync::Arc;

use ::redis::{PushKind, VerbatimFormat, parse_redis_value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::time::Ttl;

use super::*;
use crate::node::place::KeyTemplate;

const LIFE: Life = Life { epoch: Epoch(0xe), floor: Fence::new(7) };

fn letters() -> Vec<Letter> {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    let place = Arc::new(template.place(&Name::new("name").unwrap()).unwrap());
    let (attempt, fence) = (LeaseId::from_bits(1), Fence::new(1));
    let ttl = Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
    let requests = [
        Request::Acquire { attempt, proposal: fence, ttl, holder: String::new() },
        Request::Renew { attempt, fence, ttl, repair: true, holder: String::new() },
        Request::Release { attempt, tombstone: Some(1) },
        Request::PlainAcquire { attempt, ttl },
        Request::PlainExtend { attempt, ttl },
        Request::PlainRelease { attempt },
    ];
    requests.map(|request| Letter { place: Arc::clone(&place), request: Arc::new(request) }).into()
}

/// What a server could say that is broken, hostile or none of ours.
fn values() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(2, 16, 6, |inner| {
        let pairs = || vec((inner.clone(), inner.clone()), 0..3);
        prop_oneof![
            6 => vec(inner.clone(), 0..13).prop_map(Value::Array),
            // Close to what is expected.
            6 => (-5..3_i64, vec(inner.clone(), 0..5)).prop_map(|(code, rest)| {
                Value::Array(std::iter::once(Value::Int(code)).chain(rest).collect())
            }),
            1 => vec(inner.clone(), 0..5).prop_map(Value::Set),
            1 => pairs().prop_map(Value::Map),
            1 => (inner.clone(), pairs()).prop_map(|(data, attributes)| {
                Value::Attribute { data: Box::new(data), attributes }
            }),
            1 => vec(inner, 0..3).prop_map(|data| Value::Push { kind: PushKind::Message, data }),
        ]
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    let error = select(vec!["NOSCRIPT gone", "ERR what", "OOM no room", "READONLY", "WRONGTYPE no", "\u{fffd}"]);
    prop_oneof![
        2 => Just(Value::Nil),
        3 => Just(Value::Okay),
        6 => (-2..3_i64).prop_map(Value::Int),
        4 => any::<i64>().prop_map(Value::Int),
        4 => text_like().prop_map(|text| Value::BulkString(text.into())),
        1 => vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
        1 => text_like().prop_map(Value::SimpleString),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
        1 => text_like().prop_map(|text| Value::VerbatimString { format: VerbatimFormat::Text, text }),
        1 => Just(Value::BigNumber(b"18446744073709551616".to_vec())),
        1 => error.prop_map(|error| parse_redis_value(format!("-{error}\r\n").as_bytes()).unwrap()),
    ]
}

fn word() -> impl Strategy<Value = String> {
    select(vec!["", "1", "1", "c1", "e", "e 7", "x", "e x", "99999999999999999999"]).prop_map(str::to_owned)
}

fn text_like() -> impl Strategy<Value = String> {
    let known = ["", "1", "OK", "c1", "-1", "99999999999999999999", "e", "e 7", "e x", " ", "7 host label"];
    let known = known.iter().map(ToString::to_string).chain([mark(Some(LIFE)), hex(LIFE.epoch)]);
    prop_oneof![4 => select(known.collect::<Vec<_>>()), 1 => any::<String>()]
}

/// What could be said of the epoch: often what is in it, or that nothing is.
fn last() -> impl Strategy<Value = Value> {
    let likely = [mark(Some(LIFE)), hex(LIFE.epoch), String::new()];
    let likely = select(likely.to_vec()).prop_map(|text| Value::BulkString(text.into()));
    prop_oneof![3 => likely, 1 => leaf()]
}

/// Whether a value says yes to a request, word for word as the scripts and the page's commands do.
fn says_yes(request: &Request, value: &Value, same_life: bool) -> bool {
    let is_number = |value: &Value| matches!(value, Value::Int(0..));
    match request {
        Request::PlainAcquire { .. } => same_life && *value == Value::Okay,
        Request::PlainExtend { .. } => same_life && *value == Value::Int(1),
        Request::PlainRelease { .. } => *value == Value::Int(1),
        Request::Release { .. } => {
            matches!(value, Value::Array(parts) if matches!(&parts[..], [Value::Int(1), at, ..] if is_number(at)))
        }
        Request::Acquire { .. } | Request::Renew { .. } => matches!(value, Value::Array(parts)
            if matches!(&parts[..], [Value::Int(1), at, fence, ..] if is_number(at) && is_number(fence))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_but_a_yes_becomes_a_grant(value in values(), last in last(), known in any::<bool>()) {
        let life = known.then_some(LIFE);
        for letter in letters() {
            let request = Arc::clone(&letter.request);
            let values = if request.is_plain() { vec![value.clone(), last.clone()] } else { vec![value.clone()] };
            let same_life = known && matches!(text(&last), Some(text) if text == mark(life));
            let replies = replies(life, &[letter], values);
            let granted = matches!(replies.as_deref(), Ok([Reply::Voted { vote: Vote::Grant { .. }, .. }]));
            prop_assert_eq!(granted, says_yes(&request, &value, same_life), "{:?} to {:?}", replies, request);
        }
    }

    #[test]
    fn a_batch_of_another_size_is_malformed(values in vec(leaf(), 0..12)) {
        let letters = letters();
        let replies = replies(Some(LIFE), &letters, values.clone());
        // The plain ones among them ask for one more.
        if values.len() == letters.len() + 1 {
            prop_assert!(replies.is_err() || replies.is_ok_and(|replies| replies.len() == letters.len()));
        } else {
            prop_assert_eq!(replies, Err(malformed("a batch")));
        }
    }

    #[test]
    fn a_standing_is_read_whole_or_not_at_all(mut words in vec(word(), 10), stray in leaf(), at in 0..20_usize) {
        let numbers = [Value::Int(1), Value::Int(5)];
        let bulk = |word: &String| Value::BulkString(word.as_bytes().into());
        let parts = |words: &[String]| numbers.iter().cloned().chain(words.iter().map(bulk)).collect::<Vec<_>>();
        let [epoch_and_floor, _, cluster, ..] = words.as_slice() else { unreachable!() };
        let (is_blank, has_floor) = (cluster.is_empty(), epoch_and_floor.contains(' '));
        if let Ok(standing) = standing(Value::Array(parts(&words))) {
            prop_assert_eq!(standing.life.is_none(), is_blank);
            prop_assert!(standing.life.is_none_or(|life| life.epoch.is_some() || !has_floor));
        }
        let mut broken = parts(&words);
        if at < broken.len() && text(&stray).is_none() && unsigned(&stray).is_none() {
            broken[at] = stray.clone();
            prop_assert!(standing(Value::Array(broken)).is_err());
        }
        words.pop();
        prop_assert!(standing(Value::Array(parts(&words))).is_err() && standing(stray).is_err());
    }
}
