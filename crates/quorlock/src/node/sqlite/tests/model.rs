//! Compares the SQLite node with a model, which applies the rules of quorlock-core to a map. Both must give the same
//! answers and store the same state.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::sample::select;
use quorlock_core::digest::Digest;
use quorlock_core::name::OwnerId;
use quorlock_core::node::roster::{Membership, RosterAnswer, RosterCommand, apply_roster, vote};
use quorlock_core::node::{Answer, Record, apply};
use quorlock_core::request::{BreakMode, Target};

use super::*;
use crate::node::roster_history::{RosterHistory, RosterStep, roster_step};
use crate::node::sqlite::record;

/// The channel of the session. Hints for other channels stay in the file.
const OWN: Channel = Channel(1);
const NAMES: [&str; 3] = ["a", "b", "ü\0c"];

/// The boot of the session, and other boots.
const BOOTS: [&str; 3] = ["boot", "earlier", "later"];

/// A placeholder in a generated break. It is replaced by the fence that is stored when the break is sent.
const STORED: Fence = Fence::MAX;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        name: usize,
        request: Request,
        stale: bool,
    },
    Pass(u64),
    Reopen,
    Roster(RosterStep),
    /// The row of the node is copied.
    Copy,
    /// The last copy of the row of the node replaces the row.
    Restore,
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

/// Generates the mode of each attempt, which never changes its mode. The last two attempts are exclusive, for plain
/// requests.
fn modes() -> impl Strategy<Value = Vec<Mode>> {
    prop::collection::vec(mode(), 5).prop_map(|mut modes| {
        modes.extend([Mode::EXCLUSIVE; 2]);
        modes
    })
}

/// Generates a request, and the index of the name.
fn request(modes: Vec<Mode>) -> impl Strategy<Value = (usize, Request)> {
    // Fences may be twenty minutes ahead of the clock: far more than the max clock skew, but still below the reserve.
    let fence = prop_oneof![Just(0), START_MICROS..START_MICROS + 20_000_000, Just(START_MICROS + 1_200_000_000)];
    let ttl = (100..60_000_u64).prop_map(ttl);
    let waiter = prop::option::weighted(0.7, waiter());
    let kind = prop_oneof![6 => Just(0), 3 => Just(1), 6 => Just(2), 5 => 3..8, 1 => 8..10];
    let name = 0..NAMES.len();
    (name, kind, 0..modes.len(), fence.prop_map(Fence::new), ttl, any::<bool>(), 0..90_000_u64, waiter).prop_map(
        move |(name, kind, who, fence, ttl, flag, millis, waiter)| {
            // An attempt belongs to one name. Start at 1, because attempt 0 could be mistaken for a broken lease.
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

fn steps_with_rosters() -> impl Strategy<Value = Vec<Step>> {
    let step = |modes| {
        prop_oneof![
            10 => step(modes),
            10 => roster_step(BOOTS.len()).prop_map(Step::Roster),
            1 => Just(Step::Copy),
            1 => Just(Step::Restore),
        ]
    };
    modes().prop_flat_map(move |modes| prop::collection::vec(step(modes), 1..60))
}

#[derive(Default)]
struct Model {
    records: HashMap<String, Record>,
    membership: Option<Membership>,
    /// The last copy of the membership.
    copy: Option<Membership>,
    /// The epoch before the last change of the epoch.
    earlier: Option<Epoch>,
    history: RosterHistory,
}

impl Model {
    fn ask(&mut self, life: &Incarnation, message: &Message, epoch: Epoch, now: NodeTime) -> Answer {
        let record = self.records.entry(message.key.text.clone()).or_default();
        let request = &*message.request;
        let answer = match &self.membership {
            Some(membership) if membership.identity.run != BOOTS[0] && request.needs_epoch() => {
                Refusal::WrongEpoch.into()
            }
            Some(membership) => vote(membership, record, request, epoch, now, |_| false),
            None => apply(life, record, request, epoch, now, |_| false),
        };
        record.forget_requests();
        answer
    }

    /// Executes a roster command. A new floor is not below the reserve, and another boot forgets all records.
    fn execute(&mut self, command: &RosterCommand, reserve: u64, now: NodeTime) -> RosterAnswer {
        let before = self.membership.clone();
        let mut answer = apply_roster(&mut self.membership, command, now);
        if let Some(after) = &mut self.membership {
            let is_same =
                before.as_ref().is_some_and(|before| before.floor == after.floor && before.life == after.life);
            after.floor = after.floor.map(|floor| if is_same { floor } else { floor.max(Fence::new(reserve)) });
            if before.as_ref().is_none_or(|before| before.identity.run != after.identity.run) {
                self.records.clear();
            }
            let epoch = before.map(|before| before.epoch()).filter(|epoch| *epoch != after.epoch());
            self.earlier = epoch.or(self.earlier);
        }
        answer.membership.clone_from(&self.membership);
        answer
    }

    /// Replaces the placeholder [`STORED`] in a break.
    fn fill_in_fence(&self, message: Message) -> Message {
        let Request::Break { target: Target::Fence(STORED), mode } = *message.request else { return message };
        let stored = self.records.get(&message.key.text).and_then(|record| Some(record.fence.as_ref()?.fence));
        let target = Target::Fence(stored.unwrap_or_default());
        Message { request: Request::Break { target, mode }.into(), ..message }
    }
}

/// The node, and the model with the expected state.
struct Comparison {
    test_file: TestFile,
    session: TestListener,
    model: Model,
    /// The number of the last hint row that was compared.
    last_hint: i64,
}

impl Comparison {
    fn new() -> Self {
        let test_file = TestFile::new();
        let session = test_file.listener(OWN);
        Self { test_file, session, model: Model::default(), last_hint: 0 }
    }

    /// Sends one batch to the node and to the model, and compares the answers. The requests of a batch share a
    /// transaction, and therefore one reading of the clock.
    fn send(&mut self, messages: Vec<Message>, epoch: Epoch) {
        let now = self.test_file.clock.peek();
        let life = &self.session.session.known;
        let (messages, answers): (Vec<Message>, Vec<Answer>) = messages
            .into_iter()
            .map(|message| {
                let message = self.model.fill_in_fence(message);
                let answer = self.model.ask(life, &message, epoch, now);
                (message, answer)
            })
            .unzip();
        let life = Some(Life { epoch, ..self.session.session.life() });
        let replies = wait(self.session.session.session.send(life, messages)).unwrap();
        let mut hints = Vec::new();
        for (reply, answer) in replies.into_iter().zip(answers) {
            assert_eq!(reply, Reply::Voted { vote: answer.vote, at_micros: Some(now.wall_micros) });
            let hint = answer.hint.filter(|waiter| waiter.channel != Channel(0));
            hints.extend(hint.map(|waiter| (waiter.channel, waiter.ticket)));
        }
        let (own, others): (Vec<_>, Vec<_>) = hints.into_iter().partition(|(channel, _)| *channel == OWN);
        assert_eq!(self.session.all_hints(), own.iter().map(|(_, ticket)| *ticket).collect::<Vec<_>>());
        assert_eq!(self.new_hints(), others);
        self.compare(now);
    }

    /// Gives the node and the model a roster under which the node votes.
    fn found(&mut self, others: usize, trusts_restarts: bool) {
        for command in self.model.history.founding(Identity::of_run(BOOTS[0]), others, trusts_restarts) {
            self.send_roster_command(&command);
        }
        assert!(self.model.membership.as_ref().unwrap().is_voting());
    }

    fn send_roster_command(&mut self, command: &RosterCommand) {
        let sql = "SELECT reserve FROM node";
        let reserve = self.test_file.connect().query_row(sql, [], |row| row.get(0)).unwrap();
        let now = self.test_file.clock.peek();
        let (answer, identity) = wait(self.session.session.session.roster_command(command.clone())).unwrap();
        assert_eq!(answer, self.model.execute(command, reserve, now), "to {command:?}");
        assert_eq!(identity, Identity::of_run(BOOTS[0]));
        self.compare(now);
    }

    fn roster_step(&mut self, step: &RosterStep) {
        let Model { history, membership, .. } = &mut self.model;
        let command = history.command(step, membership.as_ref(), |which| Identity::of_run(BOOTS[which]));
        self.send_roster_command(&command);
    }

    /// Copies the row of the node like a snapshot of a disk.
    fn copy(&mut self) {
        let sql = "CREATE TABLE IF NOT EXISTS copy(membership TEXT); DELETE FROM copy;
            INSERT INTO copy SELECT membership FROM node";
        self.test_file.connect().execute_batch(sql).unwrap();
        self.model.copy.clone_from(&self.model.membership);
    }

    /// Restores the last copy, if there is one.
    fn restore(&mut self) {
        if let Some(copy) = self.model.copy.clone() {
            self.test_file
                .connect()
                .execute_batch("UPDATE node SET membership = (SELECT membership FROM copy)")
                .unwrap();
            self.model.membership = Some(copy);
        }
    }

    /// Returns the epoch that the client knows.
    fn epoch(&self, is_stale: bool) -> Epoch {
        match &self.model.membership {
            _ if is_stale => self.model.earlier.unwrap_or(Epoch(1)),
            Some(membership) => membership.epoch(),
            None => self.session.session.known.epoch.unwrap(),
        }
    }

    fn run(&mut self, steps: Vec<Step>, batch: usize) {
        let mut queue: Vec<(Vec<Message>, Epoch)> = Vec::new();
        for step in steps.into_iter().chain([Step::Pass(0)]) {
            if queue.len() >= batch || !matches!(step, Step::Ask { .. }) {
                for (messages, epoch) in queue.drain(..) {
                    self.send(messages, epoch);
                }
            }
            match step {
                Step::Ask { name, request, stale } => {
                    let epoch = self.epoch(stale);
                    let message = message(NAMES[name], request);
                    match queue.last_mut() {
                        Some((messages, of)) if *of == epoch => messages.push(message),
                        _ => queue.push((vec![message], epoch)),
                    }
                }
                Step::Pass(millis) => self.test_file.clock.pass(millis),
                Step::Reopen => self.session = self.test_file.listener(OWN),
                Step::Roster(step) => self.roster_step(&step),
                Step::Copy => self.copy(),
                Step::Restore => self.restore(),
            }
        }
    }

    /// Returns the hints that were written to the file since the last call.
    fn new_hints(&mut self) -> Vec<(Channel, Ticket)> {
        let other = self.test_file.connect();
        let mut statement =
            other.prepare("SELECT seq, channel, ticket FROM hint WHERE seq > ?1 AND channel <> 'broken'").unwrap();
        let mut rows = statement.query([self.last_hint]).unwrap();
        let mut hints = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            self.last_hint = row.get(0).unwrap();
            let channel = Channel::parse(&row.get::<_, String>(1).unwrap()).unwrap();
            hints.push((channel, Ticket::parse(&row.get::<_, String>(2).unwrap()).unwrap()));
        }
        hints
    }

    /// Compares the state that has not expired. The file does not store the order of entries.
    fn compare(&self, now: NodeTime) {
        let other = self.test_file.connect();
        for name in NAMES {
            let key = key(name).text;
            let mut stored = record::load_without_tombstones(&other, &key).unwrap();
            let mut expected = self.model.records.get(&key).cloned().unwrap_or_default();
            (expected.tombstones, expected.retired) = Default::default();
            for record in [&mut stored, &mut expected] {
                record.remove_expired(now);
                record.entries.sort_by_key(|entry| entry.attempt);
            }
            assert_eq!(stored, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_node_answers_and_stores_the_same_as_the_model(steps in steps(), batch in 1..6_usize) {
        Comparison::new().run(steps, batch);
    }

    #[test]
    fn a_node_with_a_roster_answers_and_stores_the_same_as_the_model(
        steps in steps_with_rosters(),
        batch in 1..6_usize,
        others in select(vec![0, 2]),
        trusts_restarts in any::<bool>(),
    ) {
        let mut comparison = Comparison::new();
        comparison.found(others, trusts_restarts);
        comparison.run(steps, batch);
    }
}
