//! A session: one connection to a server, or one to each master of a Redis Cluster.
//!
//! Any change since the handshake, and any error of a connection, ends the session and all its connections.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use quorlock_core::node::{Constants, Identity};
use tokio::task::JoinSet;

use super::codec::{self, Bundles, Writer};
use super::commands::Commands;
use super::fitness::{keeps_all, last_promotion};
use super::scripts::Home;
use super::shards::Shards;
use super::slot::Slot;
use super::trouble::malformed;
use super::value::Value;
use super::wire::{Connecting, Wire};
use super::{hints, history};
use crate::node::url::Origin;
use crate::node::{Answer, Inbox, Life, Page, Question, Session, Trouble};
use crate::platform::sync::Mutex;

pub(super) struct RedisSession {
    /// A connection to each master. The index is a *lane*.
    wires: Vec<Wire>,
    /// The commands for each lane, and the lane of each expected value. Kept to reuse their buffers.
    commands: Vec<Commands>,
    route: Vec<usize>,
    /// The incarnation of the last batch, and the content of the epoch key for it.
    mark: (Option<Life>, String),
    shards: Shards,
    home: Home,
    inflight: Arc<Inflight>,
    constants: Constants,
    identity: Identity,
    /// The task that watches the sentinels, if there are any. It ends with the session.
    _watch: JoinSet<()>,
}

impl RedisSession {
    /// Starts a session on connections that have completed their handshakes, one for each lane.
    pub(super) fn start(
        masters: Vec<(Connecting, Identity)>,
        shards: Shards,
        origin: Arc<Origin>,
        inbox: Inbox,
        constants: Constants,
        watch: JoinSet<()>,
    ) -> Self {
        let run = join(masters.iter().map(|(_, master)| master.run.as_str()));
        let promotion = join(masters.iter().map(|(_, master)| master.promotion.as_str()));
        let home = origin.home();
        let inflight = Arc::new(Inflight::new(inbox, masters.len(), run.clone(), origin));
        let start = |(lane, (connecting, _)): (usize, (Connecting, _))| {
            let inflight = Arc::clone(&inflight);
            connecting.start(move |value| inflight.receive(lane, value))
        };
        let wires: Vec<Wire> = masters.into_iter().enumerate().map(start).collect();
        let commands = wires.iter().map(|_| Commands::default()).collect();
        let (route, mark, identity) = (Vec::new(), (None, String::new()), Identity { run, promotion });
        Self { wires, commands, route, mark, shards, home, inflight, constants, identity, _watch: watch }
    }

    /// Writes the commands of a question, and the lane of each value in the order in which the answer uses them.
    fn write(&mut self, question: &Question) -> Bundles {
        let Self { commands, route, mark, shards, home, .. } = self;
        let home = *home;
        route.clear();
        if let Question::Votes(life, messages) = question {
            if mark.0 != *life {
                *mark = (*life, codec::mark(*life));
            }
            let writer = Writer { mark: &mark.1, constants: &self.constants };
            if home == Home::Server {
                let bundles = writer.write_batch(messages, &mut commands[0]);
                route.resize(commands[0].len(), 0);
                return bundles;
            }
            for message in messages {
                let lane = shards.lane(message.key.slot.unwrap_or_else(|| Slot::of(&message.key.text)));
                writer.write(message, &mut commands[lane]);
                route.push(lane);
            }
            return Bundles::default();
        }
        // One master has all of the node's own keys.
        let mut lane = shards.lane(Slot::of(home.epoch_key()));
        match question {
            Question::Votes(..) => {}
            Question::NodeCommand(command) => codec::node_command(home, command, &mut commands[lane]),
            Question::Search(search) => {
                let (of_search, cursor) = parse_bookmark(&search.after, commands.len());
                lane = of_search;
                codec::search(home, search, cursor, &mut commands[lane]);
            }
            Question::Note(events) => history::note(home, events, &mut commands[lane]),
            Question::Recall(limit) => history::recall(home, *limit, &mut commands[lane]),
        }
        route.resize(commands[lane].len(), lane);
        if let Question::NodeCommand(_) = question {
            // The configuration may have changed since the handshake. Redis 6.2 accepts one section per command.
            for section in ["replication", "memory"] {
                for (lane, commands) in commands.iter_mut().enumerate() {
                    commands.command("INFO").word(section);
                    route.push(lane);
                }
            }
        }
        Bundles::default()
    }
}

impl Session for RedisSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        let bundles = self.write(&question);
        // Register the question first: its reply may arrive as soon as the commands are sent.
        self.inflight.expect(question, bundles, &self.route);
        for (wire, commands) in self.wires.iter().zip(&mut self.commands).filter(|(_, commands)| commands.len() > 0) {
            wire.send(commands.as_bytes());
            commands.clear();
        }
    }
}

/// The questions of a session that have no answer yet. The connections deliver their values here.
struct Inflight {
    inbox: Inbox,
    /// The run ids of all masters, which cannot change during a connection.
    run: String,
    origin: Arc<Origin>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    questions: VecDeque<Expected>,
    /// The number of the oldest question.
    answered: u64,
    /// The values that each lane expects next: the number of the question, and the index in its values.
    lanes: Vec<VecDeque<(u64, usize)>>,
    /// A task is delivering answers. Other tasks leave theirs to it, because concurrent deliveries could change the
    /// order.
    busy: bool,
}

/// A question and the values of its answer.
struct Expected {
    question: Question,
    bundles: Bundles,
    /// Nil until the value arrives.
    values: Vec<Value>,
    missing: usize,
}

impl Inflight {
    fn new(inbox: Inbox, lanes: usize, run: String, origin: Arc<Origin>) -> Self {
        let state = State { lanes: vec![VecDeque::new(); lanes], ..State::default() };
        Self { inbox, run, origin, state: Mutex::new(state) }
    }

    /// Registers a question that expects a value on each lane of the route.
    fn expect(&self, question: Question, bundles: Bundles, route: &[usize]) {
        let mut state = self.state.lock();
        let number = state.answered + state.questions.len() as u64;
        for (index, lane) in route.iter().enumerate() {
            state.lanes[*lane].push_back((number, index));
        }
        let values = route.iter().map(|_| Value::Nil).collect();
        state.questions.push_back(Expected { question, bundles, values, missing: route.len() });
    }

    /// Handles a value or error of a connection. Returns whether to continue reading.
    fn receive(&self, lane: usize, value: io::Result<Value>) -> bool {
        let taken = match value {
            Ok(Value::Push(parts)) => {
                if let Some(answer) = hints::heard(self.inbox.channel, &parts) {
                    self.inbox.take(answer);
                }
                Ok(())
            }
            Ok(value) => self.take(lane, value),
            Err(error) => Err(Trouble::Broken(error.to_string())),
        };
        if let Err(trouble) = taken {
            self.inbox.take(Answer::End(trouble));
        }
        !self.inbox.is_over()
    }

    fn take(&self, lane: usize, value: Value) -> Result<(), Trouble> {
        let mut state = self.state.lock();
        state.fill(lane, value).ok_or_else(|| malformed("nothing"))?;
        if state.busy {
            return Ok(());
        }
        state.busy = true;
        while let Some(complete) = state.pop() {
            let lanes = state.lanes.len();
            drop(state);
            // Release the lock first: the receiver may ask the next question at once.
            self.inbox.take(self.answer(complete, lanes).unwrap_or_else(Answer::End));
            state = self.state.lock();
        }
        state.busy = false;
        Ok(())
    }

    fn answer(&self, complete: Expected, lanes: usize) -> Result<Answer, Trouble> {
        let values = complete.values;
        Ok(match complete.question {
            Question::Votes(life, messages) => {
                Answer::Votes(codec::replies(life, &messages, &complete.bundles, values)?)
            }
            Question::Note(_) => history::answer(false, &values),
            Question::Recall(_) => history::answer(true, &values),
            Question::Search(search) => match codec::page(values.first().unwrap_or(&Value::Nil))? {
                Answer::Page(page) => {
                    let (lane, _) = parse_bookmark(&search.after, lanes);
                    Answer::Page(Page { next: bookmark(page.next, lane, lanes), ..page })
                }
                failed => failed,
            },
            Question::NodeCommand(command) => {
                let mut values = values.into_iter();
                let standing = codec::standing_after(&command, &mut values)?;
                let promotions = values.by_ref().take(lanes).map(|value| last_promotion(&self.origin, value));
                let promotions: Vec<String> = promotions.collect::<Result<_, _>>()?;
                values.try_for_each(keeps_all)?;
                let promotion = join(promotions.iter().map(String::as_str));
                Answer::Standing(Box::new(standing), Identity { run: self.run.clone(), promotion })
            }
        })
    }
}

impl State {
    /// Stores a value with its question. Returns `None` if no question expects it.
    fn fill(&mut self, lane: usize, value: Value) -> Option<()> {
        let (number, index) = self.lanes[lane].pop_front()?;
        let question = self.questions.get_mut(usize::try_from(number - self.answered).ok()?)?;
        question.values[index] = value;
        question.missing -= 1;
        Some(())
    }

    /// Removes and returns the oldest question if all its values have arrived.
    fn pop(&mut self) -> Option<Expected> {
        self.questions.front().filter(|question| question.missing == 0)?;
        self.answered += 1;
        self.questions.pop_front()
    }
}

/// Joins values of all masters into one word, sorted.
fn join<'a>(signs: impl Iterator<Item = &'a str>) -> String {
    let mut signs: Vec<&str> = signs.filter(|sign| !sign.is_empty()).collect();
    signs.sort_unstable();
    signs.join("+")
}

/// Returns the bookmark of the next page: on the same master, or the start of the next one.
fn bookmark(cursor: Option<String>, lane: usize, lanes: usize) -> Option<String> {
    match cursor {
        Some(cursor) => Some(format!("{lane} {cursor}")),
        None => (lane + 1 < lanes).then(|| format!("{} 0", lane + 1)),
    }
}

/// Parses a bookmark into lane and cursor. If the Cluster has fewer masters now, uses the last one.
fn parse_bookmark(bookmark: &str, lanes: usize) -> (usize, &str) {
    let (lane, cursor) = bookmark.split_once(' ').unwrap_or(("0", "0"));
    (lane.parse().unwrap_or(0).min(lanes - 1), cursor)
}

#[cfg(test)]
mod tests;
