use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::node::roster::{self, RosterCommand};
use quorlock_core::quorum::MemberId;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{HeldBy, QUEUE_LISTED_MAX, Report, Waiting};

use crate::node::key::KeyTemplate;

use super::fuzz::{BREAK, LIFE, PERMITS, is_grant_of, messages};
use super::roster_command::roster_answer;
use super::*;

/// Returns values that a broken or hostile server, or another kind of server, could reply.
fn values() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(2, 16, 6, |inner| {
        prop_oneof![
            6 => vec(inner.clone(), 0..13).prop_map(Value::Array),
            // An array that is close to an expected reply.
            6 => (-12..3_i64, vec(inner.clone(), 0..10)).prop_map(|(code, rest)| {
                Value::Array(std::iter::once(Value::Int(code)).chain(rest).collect())
            }),
            6 => vec(small(), 0..9).prop_map(Value::Array),
            // A grant of a slot, or a similar array.
            6 => (vec(small(), 2), vec(small(), 0..20)).prop_map(|(start, free)| {
                let start = [Value::Int(1), Value::Int(9)].into_iter().chain(start);
                Value::Array(start.chain([Value::Array(free)]).collect())
            }),
            1 => vec(inner.clone(), 0..6).prop_map(Value::Map),
            1 => vec(inner, 0..3).prop_map(Value::Push),
        ]
    })
}

/// Returns replies to a bundle of this many requests.
fn bundle_replies(count: usize) -> impl Strategy<Value = Value> {
    let share = prop_oneof![
        4 => Just(Value::Int(1)),
        2 => (0..9_i64).prop_map(Value::Int),
        2 => Just(Value::Array(vec![Value::Int(1), Value::Int(9), Value::Int(9)])),
        2 => values(),
    ];
    prop_oneof![6 => vec(share.boxed(), count).prop_map(Value::Array), 1 => values()]
}

/// Returns two releases, two acquires and two renewals, or two plain releases and two plain renewals, each of another
/// name.
fn bundled_messages(plain: bool) -> Vec<Message> {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    let key = |name: &str| Arc::new(template.key(&Name::new(name).unwrap()).unwrap());
    let (attempt, proposal, ttl) =
        (LeaseId::from_bits(1), Fence::new(1), Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap());
    let release = || {
        if plain {
            return Request::PlainRelease { attempt };
        }
        Request::Release { attempt, tombstone: None, parting: None }
    };
    let acquire =
        || Request::Acquire { attempt, proposal, ttl, holder: "".into(), mode: Mode::EXCLUSIVE, waiter: None };
    let renew = || {
        if plain {
            return Request::PlainExtend { attempt, ttl };
        }
        Request::Renew { attempt, fence: proposal, ttl, repair: true, holder: "".into(), mode: Mode::EXCLUSIVE }
    };
    let message = |name, request| Message { key: key(name), request: Arc::new(request) };
    let mut messages = vec![message("a", release()), message("b", release())];
    if !plain {
        messages.extend([message("c", acquire()), message("d", acquire())]);
    }
    messages.extend([message("e", renew()), message("f", renew())]);
    messages
}

fn small() -> impl Strategy<Value = Value> {
    prop_oneof![15 => 0..i64::from(PERMITS), 1 => -1..5_i64].prop_map(Value::Int)
}

fn leaf() -> impl Strategy<Value = Value> {
    let error = select(vec!["NOSCRIPT gone", "ERR what", "OOM no room", "READONLY", "WRONGTYPE no", "\u{fffd}"]);
    prop_oneof![
        2 => Just(Value::Nil),
        3 => Just(Value::Okay),
        6 => (-2..3_i64).prop_map(Value::Int),
        4 => any::<i64>().prop_map(Value::Int),
        4 => text_like().prop_map(|text| Value::Text(text.into())),
        1 => vec(any::<u8>(), 0..40).prop_map(Value::Text),
        1 => Just(Value::Other),
        1 => error.prop_map(|error| Value::Error(error.into())),
    ]
}

fn word() -> impl Strategy<Value = String> {
    select(vec!["", "1", "1", "c1", "e", "e 7", "x", "e x", "99999999999999999999"]).prop_map(str::to_owned)
}

fn text_like() -> impl Strategy<Value = String> {
    let known = ["", "1", "OK", "c1", "-1", "99999999999999999999", "e", "e 7", "e x", " ", "7 host label"];
    let known = known.iter().map(ToString::to_string).chain([epoch_text(Some(LIFE)), hex(LIFE.epoch)]);
    prop_oneof![4 => select(known.collect::<Vec<_>>()), 1 => any::<String>()]
}

/// Returns replies to a read of the epoch, most of which are likely replies.
fn epoch_replies() -> impl Strategy<Value = Value> {
    let likely = [epoch_text(Some(LIFE)), hex(LIFE.epoch), String::new()];
    let likely = select(likely.to_vec()).prop_map(|text| Value::Text(text.into()));
    prop_oneof![3 => likely, 1 => leaf()]
}

fn acquire(mode: Mode) -> Request {
    let of_this_mode = |message: &&Message| matches!(&*message.request, Request::Acquire { mode: m, .. } if *m == mode);
    Request::clone(&messages().iter().find(of_this_mode).unwrap().request)
}

fn numbers(numbers: &[i64]) -> Vec<Value> {
    numbers.iter().copied().map(Value::Int).collect()
}

/// Parses a reply of these parts. Asserts that a reply with a missing, foreign or additional part is rejected.
fn parse_strictly(request: &Request, parts: &[Value]) -> Option<Vote> {
    for cut in 0..parts.len() {
        // The report about a free name is a prefix of the report about a held name.
        if !(*request == Request::Inspect && cut == 6) {
            assert_eq!(scripted(request, &Value::Array(parts[..cut].to_vec())), None, "{parts:?} up to {cut}");
        }
        let mut foreign = parts.to_vec();
        foreign[cut] = Value::Other;
        assert_eq!(scripted(request, &Value::Array(foreign)), None, "{parts:?} with a foreign value at {cut}");
    }
    let more = Value::Array(parts.iter().cloned().chain([Value::Nil]).collect());
    assert_eq!(scripted(request, &more), None, "{parts:?} and more");
    match scripted(request, &Value::Array(parts.to_vec()))? {
        Reply::Voted { vote, at_micros: Some(9) } => Some(vote),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn an_incomplete_refusal_is_rejected() {
    let request = acquire(Mode::EXCLUSIVE);
    let refused = |parts: &[Value]| match parse_strictly(&request, parts) {
        Some(Vote::Refusal(refusal)) => Some(refusal),
        None => None,
        Some(vote) => panic!("{vote:?}"),
    };
    let fence = Fence::new(7);
    let held = |left, position, lower| {
        let who = Value::Text("7 host label".into());
        refused(&[numbers(&[0, 9, left, 7]), vec![who], numbers(&[position, 3, lower])].concat())
    };
    let holder = Some(Holder::new("host", 7, "label"));
    let (remaining, queue) =
        (Some(Duration::from_millis(50)), QueuePosition { position: Some(2), waiting: 3, lower: true });
    assert_eq!(held(50, 2, 1), Some(Refusal::Held { holder: holder.clone(), remaining, fence, queue }));
    let queue = QueuePosition { position: None, waiting: 3, lower: false };
    assert_eq!(held(-1, 0, 0), Some(Refusal::Held { holder, remaining: None, fence, queue }));
    assert_eq!(held(50, -1, 0), None);
    assert_eq!(held(50, 1, 2), None);
    let queue = QueuePosition { position: Some(1), waiting: 2, lower: false };
    assert_eq!(refused(&numbers(&[-5, 9, 7, 1, 2, 0])), Some(Refusal::Behind { fence, queue }));
    assert_eq!(refused(&numbers(&[-5, 9, 7, 1, i64::MAX, 0])), None);
    assert_eq!(refused(&numbers(&[-7, 9, 4])), Some(Refusal::Permits { stored: 4 }));
    for (code, refusal) in [
        (-1, Refusal::WrongEpoch),
        (-2, Refusal::Tombstoned),
        (-3, Refusal::TooFarAhead),
        (-4, Refusal::Absent),
        (-6, Refusal::QueueFull),
        (-8, Refusal::Upgrade),
        (-11, Refusal::NewRoster),
    ] {
        assert_eq!(refused(&numbers(&[code, 9])), Some(refusal));
    }
    assert_eq!(refused(&numbers(&[-9, 9])), None);
    assert_eq!(refused(&numbers(&[-6, -9])), None);
}

#[test]
fn a_grant_of_a_slot_that_does_not_exist_is_rejected() {
    let request = acquire(Mode::Slot { permits: PERMITS, slot: 1 });
    let granted = |slot, free: &[i64]| {
        parse_strictly(&request, &[numbers(&[1, 9, 7, slot]), vec![Value::Array(numbers(free))]].concat())
    };
    let slot = Some(GrantedSlot { index: 2, free: vec![0, 1] });
    assert_eq!(granted(2, &[0, 1]), Some(Vote::Grant { fence: Fence::new(7), slot }));
    assert_eq!(granted(3, &[0, 1]), None);
    assert_eq!(granted(-1, &[]), None);
    assert_eq!(granted(0, &[1, 3]), None);
    assert_eq!(granted(0, &[1; FREE_LISTED_MAX + 1]), None);
}

#[test]
fn a_malformed_queue_is_rejected() {
    let reported = |waiters: &[&str]| {
        let queue = waiters.iter().map(|text| Value::Text(text.as_bytes().to_vec())).collect();
        match parse_strictly(&Request::Inspect, &[numbers(&[2, 9, 7, 8, 2]), vec![Value::Array(queue)]].concat()) {
            Some(Vote::Report(report)) => Some(report.queue),
            _ => None,
        }
    };
    let queue = [(1_700_000_000_000_005, false), (1_700_000_000_000_009, true)];
    let queue = queue.map(|(since_micros, shared)| Waiting { since_micros, shared }).to_vec();
    assert_eq!(reported(&["0f x ab", "1700000000000005", "0a s cd", "1700000000000009"]), Some(queue));
    for malformed_queue in [&["0f x ab"][..], &["0f", "5"], &["0f y ab", "5"], &["0f x ab", "soon"], &["0f x ab", "-5"]]
    {
        assert_eq!(reported(malformed_queue), None, "{malformed_queue:?}");
    }
    assert_eq!(reported(&["0f x ab", "5"].repeat(QUEUE_LISTED_MAX)).map(|queue| queue.len()), Some(QUEUE_LISTED_MAX));
    assert_eq!(reported(&["0f x ab", "5"].repeat(QUEUE_LISTED_MAX + 1)), None);
}

#[test]
fn an_incomplete_report_is_rejected() {
    let free = Report { held: None, fence: Fence::new(7), since_micros: 8, waiting: 2, queue: vec![] };
    let reported = |report| Some(Vote::Report(Box::new(report)));
    let in_queue = |queue: &[Value]| [numbers(&[2, 9, 7, 8, 2]), vec![Value::Array(queue.to_vec())]].concat();
    assert_eq!(parse_strictly(&Request::Inspect, &in_queue(&[])), reported(free.clone()));
    let owner = OwnerId::from_bits(2);
    let by_owner = format!("r {}", owner.reveal());
    for (text, held_mode) in [
        ("x", Some(HeldMode::Exclusive)),
        ("s", Some(HeldMode::Shared)),
        ("k 3", Some(HeldMode::Slots(3))),
        (&by_owner, Some(HeldMode::Reentrant(owner))),
        ("", None),
        ("k", None),
        ("k 1025", None),
        ("k -1", None),
        ("r 2", None),
        ("s 2", None),
    ] {
        let bulk = |text: &str| vec![Value::Text(text.into())];
        let parts = [
            [in_queue(&[]), numbers(&[50]), bulk(text), numbers(&[4])].concat(),
            [bulk("nobody"), bulk("00000000000000ff"), numbers(&[1])].concat(),
        ]
        .concat();
        let (remaining, digest) = (Some(Duration::from_millis(50)), Digest::parse("00000000000000ff"));
        let held = |held_mode| HeldBy { holder: None, remaining, held_mode, holds: 4, digest, broken: true };
        let expected = held_mode.and_then(|held_mode| reported(Report { held: Some(held(held_mode)), ..free.clone() }));
        assert_eq!(parse_strictly(&Request::Inspect, &parts), expected, "{text}");
    }
}

#[test]
fn an_incomplete_reply_to_a_check_is_rejected() {
    let request = Request::Check { attempt: LeaseId::from_bits(1), slot: None };
    let standing = |remaining| Some(Vote::Standing { remaining });
    assert_eq!(parse_strictly(&request, &numbers(&[3, 9, 50])), standing(Some(Duration::from_millis(50))));
    assert_eq!(parse_strictly(&request, &numbers(&[3, 9, -1])), standing(None));
    for (code, refusal) in
        [(-1, Refusal::WrongEpoch), (-2, Refusal::Tombstoned), (-4, Refusal::Absent), (-11, Refusal::NewRoster)]
    {
        assert_eq!(parse_strictly(&request, &numbers(&[code, 9])), Some(Vote::Refusal(refusal)));
    }
    for other in [1, 2, -3, -6] {
        assert_eq!(parse_strictly(&request, &numbers(&[other, 9])), None);
    }
}

#[test]
fn a_plain_vote_under_another_epoch_is_refused_with_the_reason() {
    let life = Life { epoch: Epoch(7 << 64 | 3), floor: Fence::new(9) };
    let attempt = LeaseId::from_bits(1);
    let acquire = Request::PlainAcquire { attempt, ttl: Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap() };
    let message = Message { request: Arc::new(acquire), ..messages()[0].clone() };
    let refusal = |epoch_reply| {
        let values = vec![Value::Okay, epoch_reply];
        match replies(Some(life), std::slice::from_ref(&message), &Bundles::default(), values).unwrap().remove(0) {
            Reply::Voted { vote: Vote::Refusal(refusal), .. } => Some(refusal),
            reply => {
                assert!(reply.is_grant());
                None
            }
        }
    };
    let text =
        |life: u64, generation: u64, rest: &str| Value::Text(format!("{life:016x}{generation:016x}{rest}").into());
    assert_eq!(refusal(text(7, 3, " 9")), None);
    for (reply, expected) in [
        (text(7, 4, " 9"), Refusal::NewRoster),
        (text(7, 2, ""), Refusal::NewRoster),
        (text(7, 3, ""), Refusal::WrongEpoch),
        (text(7, 3, " 8"), Refusal::WrongEpoch),
        (text(8, 3, " 9"), Refusal::WrongEpoch),
        (text(8, 4, " 9"), Refusal::WrongEpoch),
        (Value::Text(b"0000000000000007".to_vec()), Refusal::WrongEpoch),
        (Value::Nil, Refusal::WrongEpoch),
    ] {
        assert_eq!(refusal(reply.clone()), Some(expected), "{reply:?}");
    }
}

#[test]
fn an_incomplete_answer_to_a_roster_command_is_rejected() {
    let text = |text: &str| Value::Text(text.into());
    let (epoch, membership) = (format!("{:032x}", 7_u128 << 64), format!("run\n\n{:032x}\n\n0\n\n\n\n", 1));
    let parts = [Value::Int(1), Value::Int(5), text(&epoch), text(&membership)];
    let answer = roster_answer(&Value::Array(parts.to_vec())).unwrap();
    let known = answer.membership.as_ref().unwrap();
    assert_eq!(
        (answer.accepted, answer.at_micros, known.life, known.member),
        (true, 5, roster::Life(7), Some(MemberId(1)))
    );
    let blank = [Value::Int(0), Value::Int(5), text(""), text("")];
    let blank = roster_answer(&Value::Array(blank.to_vec())).unwrap();
    assert_eq!((blank.accepted, blank.membership), (false, None));
    for (at, part) in [
        (0, Value::Int(2)),
        (1, Value::Int(-1)),
        (2, text("")),
        (2, text(&epoch[1..])),
        (2, Value::Nil),
        (3, text("")),
        (3, text(&membership[1..membership.len() - 1])),
        (3, Value::Nil),
    ] {
        let mut parts = parts.to_vec();
        parts[at] = part;
        assert!(roster_answer(&Value::Array(parts.clone())).is_err(), "{parts:?}");
    }
    assert!(roster_answer(&Value::Array(parts[..3].to_vec())).is_err());

    let time = Value::Array(vec![text("1"), text("5")]);
    let read = |stored: Value| roster_answer_after(&RosterCommand::Read, &mut [time.clone(), stored].into_iter());
    let both = read(Value::Array(vec![text(&epoch), text(&membership)])).unwrap();
    assert_eq!((both.at_micros, both.membership), (1_000_005, answer.membership));
    for stored in [[Value::Nil, text(&membership)], [text(&epoch), Value::Nil]] {
        assert_eq!(read(Value::Array(stored.to_vec())).unwrap().membership, None);
    }
    assert!(read(Value::Array(vec![text(&epoch), text("")])).is_err() && read(Value::Nil).is_err());
}

#[test]
fn an_incomplete_reply_to_a_break_is_rejected() {
    let bulk = |text: &str| vec![Value::Text(text.into())];
    let digest = Digest::parse("00000000000000ff").unwrap();
    let broken = |stood| Vote::Broken { digest, stood, remaining: Duration::from_millis(50) };
    for (number, expected) in [(0, Some(broken(false))), (1, Some(broken(true))), (2, None)] {
        let parts = [numbers(&[3, 9]), bulk("00000000000000ff"), numbers(&[number, 50])].concat();
        assert_eq!(parse_strictly(&BREAK, &parts), expected);
    }
    for (number, fence) in [(0, None), (7, Some(Fence::new(7)))] {
        let parts = [numbers(&[-9, 9, number]), bulk("00000000000000ff"), bulk("nobody")].concat();
        assert_eq!(parse_strictly(&BREAK, &parts), Some(Vote::Refusal(Refusal::Other { fence, digest, holder: None })));
    }
    assert_eq!(parse_strictly(&BREAK, &numbers(&[-4, 9])), Some(Vote::Refusal(Refusal::Absent)));
    assert_eq!(parse_strictly(&BREAK, &numbers(&[1, 9])), None, "a break is never a grant");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_exact_reply_of_a_grant_becomes_a_grant(
        value in values(),
        epoch_reply in epoch_replies(),
        known in any::<bool>(),
    ) {
        let life = known.then_some(LIFE);
        for message in messages() {
            let request = Arc::clone(&message.request);
            let mut values = vec![value.clone()];
            values.extend(reads_epoch(std::slice::from_ref(&message)).then(|| epoch_reply.clone()));
            let same_life = known && epoch_reply.as_str() == Some(&epoch_text(life));
            let replies = replies(life, &[message], &Bundles::default(), values);
            let is_granted = matches!(replies.as_deref(), Ok([reply]) if reply.is_grant());
            prop_assert_eq!(is_granted, is_grant_of(&request, &value, same_life), "{:?} to {:?}", replies, request);
        }
    }

    #[test]
    fn only_the_exact_reply_of_a_bundle_becomes_grants(
        of_releases in bundle_replies(2),
        of_acquires in bundle_replies(3),
        of_renewals in (bundle_replies(3), bundle_replies(2)),
        epoch_reply in epoch_replies(),
        plain in any::<bool>(),
    ) {
        let messages = bundled_messages(plain);
        let bundles = Bundles::of(&messages);
        prop_assert_eq!(bundles.counts(), if plain { [2, 0, 2] } else { [2, 2, 2] });
        let of_renewals = if plain { of_renewals.1 } else { of_renewals.0 };
        let values = if plain {
            vec![of_releases.clone(), of_renewals.clone(), epoch_reply.clone()]
        } else {
            vec![of_releases.clone(), of_acquires.clone(), of_renewals.clone()]
        };
        let same_life = epoch_reply.as_str() == Some(&epoch_text(Some(LIFE)));
        let Ok(replies) = replies(Some(LIFE), &messages, &bundles, values) else { return Ok(()) };
        prop_assert_eq!(replies.len(), messages.len());
        let share = |value: &Value, at: usize, of: usize| match value {
            Value::Array(parts) if parts.len() == of => parts[at].clone(),
            _ => Value::Nil,
        };
        let behind_clock = |request: &Request, shares: &Value, at: usize| {
            let (clock, value) = (share(shares, 0, 3), share(shares, 1 + at, 3));
            matches!((clock, &value), (Value::Int(0..), Value::Int(0..))) || is_grant_of(request, &value, true)
        };
        for (at, (message, reply)) in messages.iter().zip(&replies).enumerate() {
            let (request, which) = (&*message.request, at % 2);
            let is_yes = match request {
                Request::PlainExtend { .. } => is_grant_of(request, &share(&of_renewals, which, 2), same_life),
                Request::Renew { .. } => behind_clock(request, &of_renewals, which),
                Request::Acquire { .. } => behind_clock(request, &of_acquires, which),
                _ => share(&of_releases, which, 2) == Value::Int(1),
            };
            prop_assert_eq!(reply.is_grant(), is_yes, "{:?} to {:?}", reply, message);
        }
    }

    #[test]
    fn a_reply_with_another_number_of_values_than_the_batch_is_malformed(values in vec(leaf(), 0..12)) {
        let messages = messages();
        let replies = replies(Some(LIFE), &messages, &Bundles::default(), values.clone());
        // The messages include plain requests, so the batch ends with a read of the epoch.
        if values.len() == messages.len() + 1 {
            prop_assert!(replies.is_err() || replies.is_ok_and(|replies| replies.len() == messages.len()));
        } else {
            prop_assert_eq!(replies, Err(malformed("a batch")));
        }
    }

    #[test]
    fn an_incomplete_standing_is_rejected(mut words in vec(word(), 10), stray in leaf(), at in 0..20_usize) {
        let numbers = [Value::Int(1), Value::Int(5)];
        let bulk = |word: &String| Value::Text(word.as_bytes().into());
        let parts = |words: &[String]| numbers.iter().cloned().chain(words.iter().map(bulk)).collect::<Vec<_>>();
        let [epoch_and_floor, _, cluster, ..] = words.as_slice() else { unreachable!() };
        let (is_blank, has_floor) = (cluster.is_empty(), epoch_and_floor.contains(' '));
        if let Ok(standing) = standing(&Value::Array(parts(&words))) {
            prop_assert_eq!(standing.life.is_none(), is_blank);
            prop_assert!(standing.life.is_none_or(|life| life.epoch.is_some() || !has_floor));
        }
        let mut broken = parts(&words);
        if at < broken.len() && stray.as_str().is_none() && unsigned(&stray).is_none() {
            broken[at] = stray.clone();
            prop_assert!(standing(&Value::Array(broken)).is_err());
        }
        words.pop();
        prop_assert!(standing(&Value::Array(parts(&words))).is_err() && standing(&stray).is_err());
    }
}
