//! The file and the core's rules over plain maps give the same answers.

use std::collections::HashMap;

use proptest::prelude::*;
use quorlock_core::node::{Record, apply};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Ask { name: usize, request: Request, stale: bool },
    Pass(u64),
    Reopen,
}

fn request() -> impl Strategy<Value = Request> {
    let attempt = (1..5_u128).prop_map(LeaseId::from_bits);
    // Up to twenty minutes ahead: far beyond sigma, and still below the reserve.
    let fence = prop_oneof![Just(0), START_MICROS..START_MICROS + 20_000_000, Just(START_MICROS + 1_200_000_000)];
    let ttl = (100..60_000_u64).prop_map(ttl);
    (0..6, attempt, fence.prop_map(Fence::new), ttl, any::<bool>(), 0..90_000_u64).prop_map(
        |(kind, attempt, fence, ttl, flag, millis)| match kind {
            0 => Request::Acquire { attempt, proposal: fence, ttl, holder: holder() },
            1 => Request::Renew { attempt, fence, ttl, repair: flag, holder: holder() },
            2 => Request::Release { attempt, tombstone: flag.then_some(millis) },
            3 => Request::PlainAcquire { attempt, ttl },
            4 => Request::PlainExtend { attempt, ttl },
            _ => Request::PlainRelease { attempt },
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3_usize, request(), prop::bool::weighted(0.05))
            .prop_map(|(name, request, stale)| Step::Ask { name, request, stale }),
        4 => prop_oneof![0..200_u64, 0..90_000_u64, 0..30 * HOUR_MILLIS].prop_map(Step::Pass),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    records: HashMap<String, Record>,
    tombstones: HashMap<LeaseId, u64>,
}

impl Model {
    fn ask(&mut self, life: &Incarnation, letter: &Letter, epoch: Epoch, now: NodeTime) -> Vote {
        let attempt = letter.request.attempt();
        let record = self.records.entry(letter.place.key.clone()).or_default();
        record.tombstone = self.tombstones.get(&attempt).copied();
        let vote = apply(life, record, &letter.request, epoch, now);
        if let Some(until) = record.tombstone.take() {
            self.tombstones.insert(attempt, until);
        }
        vote
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_file_answers_as_the_core_does(steps in prop::collection::vec(step(), 1..60), batch in 1..6_usize) {
        let ground = Ground::new();
        let mut session = ground.session("boot");
        let mut model = Model::default();
        let mut queue = Vec::new();
        // Requests of one batch share a transaction, and so a reading of the clock.
        for step in steps.into_iter().chain([Step::Pass(0)]) {
            let is_full = queue.len() >= batch;
            if is_full || !matches!(step, Step::Ask { .. }) {
                for (letters, epoch) in queue.drain(..) {
                    let life = Some(Life { epoch, ..session.life() });
                    let letters: Vec<Letter> = letters;
                    let now = ground.clock.peek();
                    let expected: Vec<_> =
                        letters.iter().map(|letter| model.ask(&session.known, letter, epoch, now)).collect();
                    let replies = wait(session.session.send(life, letters)).unwrap();
                    for (reply, expected) in replies.into_iter().zip(expected) {
                        prop_assert_eq!(reply, Reply::Voted { vote: expected, at_micros: Some(now.wall_micros) });
                    }
                }
            }
            match step {
                Step::Ask { name, request, stale } => {
                    let epoch = if stale { Epoch(1) } else { session.known.epoch.unwrap() };
                    let letter = letter(["a", "b", "ü\0c"][name], request);
                    match queue.last_mut() {
                        Some((letters, of)) if *of == epoch => letters.push(letter),
                        _ => queue.push((vec![letter], epoch)),
                    }
                }
                Step::Pass(millis) => ground.clock.pass(millis),
                Step::Reopen => session = ground.session("boot"),
            }
        }
    }
}
