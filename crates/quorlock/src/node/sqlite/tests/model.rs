//! The file and the core's rules over plain maps give the same answers, and keep the same.

use std::collections::HashMap;

use proptest::prelude::*;
use quorlock_core::digest::Digest;
use quorlock_core::name::OwnerId;
use quorlock_core::node::{Answer, Record, apply};
use quorlock_core::request::{BreakMode, Target};

use super::*;
use crate::node::sqlite::record;

/// The session's own; what is for any other is left in the file.
const OWN: Channel = Channel(1);
const NAMES: [&str; 3] = ["a", "b", "ü\0c"];

/// To be replaced by the fence that is stored when it comes to it.
const STORED: Fence = Fence::MAX;

#[derive(Clone, Debug)]
enum Step {
    Ask { name: usize, request: Request, stale: bool },
    Pass(u64),
    Reopen,
}

fn mode() -> impl Strategy<Value = Mode> {
    let owner = || (1..4_u128).prop_map(OwnerId::from_bits);
    prop_oneof![
        prop::option::of(owner()).prop_map(|writer| Mode::Exclusive { writer }),
        owner().prop_map(|owner| Mode::Reentrant { owner }),
        owner().prop_map(|owner| Mode::Shared { owner, reenters: false }),
        (1..4_u32, 0..4_u32).prop_map(|(permits, slot)| Mode::Slot { permits, slot }),
    ]
}

fn waiter() -> impl Strategy<Value = Waiter> {
    (1..4_u64, 0..2_u64, 0..4_u128, any::<bool>()).prop_map(|(at, id, channel, shared)| Waiter {
        ticket: Ticket { at, id: id * u64::MAX },
        channel: Channel(channel),
        shared,
    })
}

/// An attempt asks in one mode as long as it lives: these, and the last ones are exclusive, as plain requests are.
fn modes() -> impl Strategy<Value = Vec<Mode>> {
    prop::collection::vec(mode(), 5).prop_map(|mut modes| {
        modes.extend([Mode::EXCLUSIVE; 2]);
        modes
    })
}

/// A name and a request for it.
fn request(modes: Vec<Mode>) -> impl Strategy<Value = (usize, Request)> {
    // Up to twenty minutes ahead: far beyond the max clock skew, and still below the reserve.
    let fence = prop_oneof![Just(0), START_MICROS..START_MICROS + 20_000_000, Just(START_MICROS + 1_200_000_000)];
    let ttl = (100..60_000_u64).prop_map(ttl);
    let waiter = prop::option::weighted(0.7, waiter());
    let kind = prop_oneof![6 => Just(0), 3 => Just(1), 6 => Just(2), 5 => 3..8, 1 => 8..10];
    let name = 0..NAMES.len();
    (name, kind, 0..modes.len(), fence.prop_map(Fence::new), ttl, any::<bool>(), 0..90_000_u64, waiter).prop_map(
        move |(name, kind, who, fence, ttl, flag, millis, waiter)| {
            // From 1: nobody draws the attempt that could be taken for one that was broken. An attempt is for one name.
            let attempt = |who| LeaseId::from_bits((name * modes.len() + who) as u128 + 1);
            let (plain, attempt, mode) = (attempt(modes.len() - 1 - who % 2), attempt(who), modes[who]);
            let request = match kind {
                0 => Request::Acquire { attempt, proposal: fence, ttl, holder: holder(), mode, waiter },
                1 => Request::Renew { attempt, fence, ttl, repair: flag, holder: holder(), mode },
                2 => {
                    let parting = waiter.map(if flag { Parting::Leave } else { Parting::Yield });
                    Request::Release { attempt, tombstone: (millis % 4 == 0).then_some(millis), parting }
                }
                3 => Request::PlainAcquire { attempt: plain, ttl },
                4 => Request::PlainExtend { attempt: plain, ttl },
                5 => Request::PlainRelease { attempt: plain },
                6 => {
                    let slot = if let Mode::Slot { slot, .. } = mode { Some(slot) } else { None };
                    Request::Check { attempt, slot }
                }
                7 => Request::Inspect,
                8 => Request::Retire { owner: OwnerId::from_bits(u128::from(millis % 3) + 1), tombstone: millis },
                _ => {
                    let target =
                        if millis % 3 == 0 { Target::Digest(Digest::of(attempt)) } else { Target::Fence(STORED) };
                    Request::Break { target, mode: if flag { BreakMode::Now } else { BreakMode::Drain } }
                }
            };
            (name, request)
        },
    )
}

fn step(modes: Vec<Mode>) -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (request(modes), prop::bool::weighted(0.05))
            .prop_map(|((name, request), stale)| Step::Ask { name, request, stale }),
        4 => prop_oneof![0..200_u64, 0..9_000_u64, 0..90_000_u64, 0..30 * HOUR_MILLIS].prop_map(Step::Pass),
        1 => Just(Step::Reopen),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    modes().prop_flat_map(|modes| prop::collection::vec(step(modes), 1..60))
}

#[derive(Default)]
struct Model {
    records: HashMap<String, Record>,
}

impl Model {
    fn ask(&mut self, life: &Incarnation, message: &Message, epoch: Epoch, now: NodeTime) -> Answer {
        let record = self.records.entry(message.key.text.clone()).or_default();
        let answer = apply(life, record, &message.request, epoch, now, |_| false);
        record.forget_requests();
        answer
    }

    fn aim(&self, message: Message) -> Message {
        let Request::Break { target: Target::Fence(STORED), mode } = *message.request else { return message };
        let stored = self.records.get(&message.key.text).and_then(|record| Some(record.fence.as_ref()?.fence));
        let target = Target::Fence(stored.unwrap_or_default());
        Message { request: Request::Break { target, mode }.into(), ..message }
    }
}

/// The file, the session, and what is expected of both.
struct Pair {
    ground: Ground,
    ours: Listening,
    model: Model,
    /// The last hint in the file that was looked at.
    read: i64,
}

impl Pair {
    fn new() -> Self {
        let ground = Ground::new();
        let ours = ground.listener(OWN);
        Self { ground, ours, model: Model::default(), read: 0 }
    }

    /// Sends one batch, which shares a transaction and so a reading of the clock.
    fn send(&mut self, messages: Vec<Message>, epoch: Epoch) {
        let now = self.ground.clock.peek();
        let life = &self.ours.session.known;
        let (messages, answers): (Vec<Message>, Vec<Answer>) = messages
            .into_iter()
            .map(|message| {
                let message = self.model.aim(message);
                let answer = self.model.ask(life, &message, epoch, now);
                (message, answer)
            })
            .unzip();
        let life = Some(Life { epoch, ..self.ours.session.life() });
        let replies = wait(self.ours.session.session.send(life, messages)).unwrap();
        let mut hints = Vec::new();
        for (reply, answer) in replies.into_iter().zip(answers) {
            assert_eq!(reply, Reply::Voted { vote: answer.vote, at_micros: Some(now.wall_micros) });
            let hint = answer.hint.filter(|waiter| waiter.channel != Channel(0));
            hints.extend(hint.map(|waiter| (waiter.channel, waiter.ticket)));
        }
        let (own, others): (Vec<_>, Vec<_>) = hints.into_iter().partition(|(channel, _)| *channel == OWN);
        assert_eq!(self.ours.all_heard(), own.iter().map(|(_, ticket)| *ticket).collect::<Vec<_>>());
        assert_eq!(self.left(), others);
        self.compare(now);
    }

    /// The hints that were left in the file since the last time.
    fn left(&mut self) -> Vec<(Channel, Ticket)> {
        let other = self.ground.other();
        let mut statement =
            other.prepare("SELECT seq, channel, ticket FROM hint WHERE seq > ?1 AND channel <> 'broken'").unwrap();
        let mut rows = statement.query([self.read]).unwrap();
        let mut hints = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            self.read = row.get(0).unwrap();
            let channel = Channel::parse(&row.get::<_, String>(1).unwrap()).unwrap();
            hints.push((channel, Ticket::parse(&row.get::<_, String>(2).unwrap()).unwrap()));
        }
        hints
    }

    /// What has not lapsed is the same; in which order people entered is not kept.
    fn compare(&self, now: NodeTime) {
        let other = self.ground.other();
        for name in NAMES {
            let key = key(name).text;
            let mut stored = record::load_standing(&other, &key).unwrap();
            let mut expected = self.model.records.get(&key).cloned().unwrap_or_default();
            (expected.tombstones, expected.retired) = Default::default();
            for record in [&mut stored, &mut expected] {
                record.lapse(now);
                record.entries.sort_by_key(|entry| entry.attempt);
            }
            assert_eq!(stored, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_file_answers_and_keeps_as_the_core_does(steps in steps(), batch in 1..6_usize) {
        let mut pair = Pair::new();
        let mut queue: Vec<(Vec<Message>, Epoch)> = Vec::new();
        for step in steps.into_iter().chain([Step::Pass(0)]) {
            if queue.len() >= batch || !matches!(step, Step::Ask { .. }) {
                for (messages, epoch) in queue.drain(..) {
                    pair.send(messages, epoch);
                }
            }
            match step {
                Step::Ask { name, request, stale } => {
                    let epoch = if stale { Epoch(1) } else { pair.ours.session.known.epoch.unwrap() };
                    let message = message(NAMES[name], request);
                    match queue.last_mut() {
                        Some((messages, of)) if *of == epoch => messages.push(message),
                        _ => queue.push((vec![message], epoch)),
                    }
                }
                Step::Pass(millis) => pair.ground.clock.pass(millis),
                Step::Reopen => pair.ours = pair.ground.listener(OWN),
            }
        }
    }
}
