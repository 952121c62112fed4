//! A session with one node: a connection to a server, or a connection to each master of a Redis Cluster.
//!
//! If the node has changed since the handshake, or a connection fails, the session ends and closes all its connections.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use quorlock_core::node::{Constants, Identity};
use tokio::task::JoinSet;

use super::codec::{self, Bundles};
use super::fitness::{check_never_evicts, last_promotion};
use super::resp::{Commands, Value};
use super::scripts::ServerKind;
use super::shards::Shards;
use super::slot::Slot;
use super::wire::{Connecting, Wire};
use super::{hints, history};
use crate::node::url::Origin;
use crate::node::{Answer, Inbox, Life, Page, Question, Session, Trouble};
use crate::platform::sync::Mutex;

pub(super) struct RedisSession {
    /// The connections, one to each master. The index of a connection is called its *lane*.
    wires: Vec<Arc<Wire>>,
    /// The commands of one question, by lane. Empty between questions; kept to reuse the buffers.
    commands: Vec<Commands>,
    /// The lane on which each value of the answer will arrive, in the order in which the answer uses the values.
    lanes: Vec<usize>,
    /// The life of the node's memory in which the last votes were requested, and the content of the epoch key in that
    /// life. Kept to format the content only once.
    epoch_text: (Option<Life>, String),
    shards: Shards,
    server_kind: ServerKind,
    inflight: Arc<Inflight>,
    constants: Constants,
    identity: Identity,
    /// The task of each connection, and the task that watches the sentinels, if there are any. Dropping the session
    /// ends the tasks.
    _tasks: JoinSet<()>,
}

impl RedisSession {
    /// Starts a session on these connections, one for each lane. Their handshakes are complete.
    pub(super) fn start(
        masters: Vec<(Connecting, Identity)>,
        shards: Shards,
        origin: Arc<Origin>,
        inbox: Inbox,
        constants: Constants,
        mut tasks: JoinSet<()>,
    ) -> Self {
        let run = join(masters.iter().map(|(_, master)| master.run.as_str()));
        let promotion = join(masters.iter().map(|(_, master)| master.promotion.as_str()));
        let server_kind = origin.server_kind();
        let inflight = Arc::new(Inflight::new(inbox, masters.len(), run.clone(), origin));
        let start = |(lane, (connecting, _)): (usize, (Connecting, _))| {
            let inflight = Arc::clone(&inflight);
            connecting.start(&mut tasks, move |value| inflight.receive(lane, value))
        };
        let wires: Vec<Arc<Wire>> = masters.into_iter().enumerate().map(start).collect();
        let commands = wires.iter().map(|_| Commands::default()).collect();
        let (lanes, epoch_text, identity) = (Vec::new(), (None, String::new()), Identity { run, promotion });
        Self { wires, commands, lanes, epoch_text, shards, server_kind, inflight, constants, identity, _tasks: tasks }
    }

    /// Writes the commands of a question to `commands`, and the lane of each expected value to `lanes`. Returns
    /// which requests share a command.
    fn write(&mut self, question: &Question) -> Bundles {
        let Self { commands, lanes, epoch_text, shards, server_kind, constants, .. } = self;
        let server_kind = *server_kind;
        lanes.clear();
        if let Question::Votes(life, messages) = question {
            if epoch_text.0 != *life {
                *epoch_text = (*life, codec::epoch_text(*life));
            }
            if server_kind == ServerKind::Server {
                let bundles = codec::write_batch(messages, &epoch_text.1, constants, &mut commands[0]);
                lanes.resize(commands[0].len(), 0);
                return bundles;
            }
            for message in messages {
                let lane = shards.lane(message.key.slot.unwrap_or_else(|| Slot::of(&message.key.text)));
                codec::write_request(message, &epoch_text.1, constants, &mut commands[lane]);
                lanes.push(lane);
            }
            return Bundles::default();
        }
        // One master has all keys that describe the node itself.
        let mut lane = shards.lane(Slot::of(server_kind.epoch_key()));
        match question {
            Question::Votes(..) => {}
            Question::NodeCommand(command) => codec::node_command(server_kind, command, &mut commands[lane]),
            Question::Roster(command) => codec::roster_command(server_kind, command, &mut commands[lane]),
            Question::Search(search) => {
                let (search_lane, cursor) = parse_bookmark(&search.after, commands.len());
                lane = search_lane;
                codec::search(server_kind, search, cursor, &mut commands[lane]);
            }
            Question::Note(events) => history::note(server_kind, events, &mut commands[lane]),
            Question::Recall(limit) => history::recall(server_kind, *limit, &mut commands[lane]),
        }
        lanes.resize(commands[lane].len(), lane);
        if let Question::NodeCommand(_) | Question::Roster(_) = question {
            // The configuration may have changed since the handshake. Redis 6.2 accepts one section per command.
            for section in ["replication", "memory"] {
                for (lane, commands) in commands.iter_mut().enumerate() {
                    commands.command("INFO").word(section);
                    lanes.push(lane);
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
        // Register the question before sending it: the reply may arrive at once.
        self.inflight.expect(question, bundles, &self.lanes);
        for (wire, commands) in self.wires.iter().zip(&mut self.commands).filter(|(_, commands)| commands.len() > 0) {
            wire.send(commands.as_bytes());
            commands.clear();
        }
    }
}

/// The questions of a session that have no answer yet. Each connection passes the values that it reads to
/// [`receive`](Self::receive).
struct Inflight {
    inbox: Inbox,
    /// The run ids of all masters. A run id cannot change during a connection.
    run: String,
    origin: Arc<Origin>,
    pending: Mutex<PendingQuestions>,
}

#[derive(Default)]
struct PendingQuestions {
    /// Oldest first.
    questions: VecDeque<Expected>,
    /// How many questions were answered. Questions are numbered from zero, so this is also the number of the oldest
    /// question.
    answered: u64,
    /// The values that each lane expects, the next one first: the number of the question, and the index of the value in
    /// its answer.
    values_by_lane: Vec<VecDeque<(u64, usize)>>,
    /// Whether a task is delivering answers. That task also delivers the answers that other tasks complete in the
    /// meantime: concurrent deliveries could change the order of the answers.
    is_delivering: bool,
}

/// A question, and the values of its answer that have arrived.
struct Expected {
    question: Question,
    bundles: Bundles,
    /// Each value is nil until it arrives.
    values: Vec<Value>,
    missing: usize,
}

impl Inflight {
    fn new(inbox: Inbox, lanes: usize, run: String, origin: Arc<Origin>) -> Self {
        let pending = PendingQuestions { values_by_lane: vec![VecDeque::new(); lanes], ..PendingQuestions::default() };
        Self { inbox, run, origin, pending: Mutex::new(pending) }
    }

    /// Registers a question that expects one value on each of these lanes.
    fn expect(&self, question: Question, bundles: Bundles, lanes: &[usize]) {
        let mut pending = self.pending.lock();
        let number = pending.answered + pending.questions.len() as u64;
        for (index, lane) in lanes.iter().enumerate() {
            pending.values_by_lane[*lane].push_back((number, index));
        }
        let values = lanes.iter().map(|_| Value::Nil).collect();
        pending.questions.push_back(Expected { question, bundles, values, missing: lanes.len() });
    }

    /// Handles a value that a connection has read, or its error. Returns whether the connection should continue
    /// reading.
    fn receive(&self, lane: usize, value: io::Result<Value>) -> bool {
        let accepted = match value {
            Ok(Value::Push(parts)) => {
                if let Some(answer) = hints::parse_push(self.inbox.channel, &parts) {
                    self.inbox.deliver(answer);
                }
                Ok(())
            }
            Ok(value) => self.accept(lane, value),
            Err(error) => Err(Trouble::Broken(error.to_string())),
        };
        if let Err(trouble) = accepted {
            self.inbox.deliver(Answer::End(trouble));
        }
        !self.inbox.is_over()
    }

    /// Stores a value, and delivers every answer that is now complete.
    fn accept(&self, lane: usize, value: Value) -> Result<(), Trouble> {
        let mut pending = self.pending.lock();
        pending.fill(lane, value).ok_or_else(|| Trouble::Broken("a reply without a request".into()))?;
        if pending.is_delivering {
            return Ok(());
        }
        pending.is_delivering = true;
        while let Some(complete) = pending.pop() {
            let lanes = pending.values_by_lane.len();
            drop(pending);
            // Release the mutex first: the receiver may ask the next question at once.
            self.inbox.deliver(self.answer(complete, lanes).unwrap_or_else(Answer::End));
            pending = self.pending.lock();
        }
        pending.is_delivering = false;
        Ok(())
    }

    fn answer(&self, complete: Expected, lanes: usize) -> Result<Answer, Trouble> {
        let values = complete.values;
        Ok(match complete.question {
            Question::Votes(life, messages) => {
                Answer::Votes(codec::replies(life, &messages, &complete.bundles, values)?)
            }
            Question::Note(_) => history::note_answer(&values),
            Question::Recall(_) => history::recall_answer(&values),
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
                Answer::Standing(Box::new(standing), self.identity(values, lanes)?)
            }
            Question::Roster(command) => {
                let mut values = values.into_iter();
                let answer = codec::roster_answer_after(&command, &mut values)?;
                Answer::Roster(Box::new(answer), self.identity(values, lanes)?)
            }
        })
    }

    /// Returns the identity of the node from the replies to `INFO`. Fails if a server cannot be a node any more.
    fn identity(&self, mut infos: impl Iterator<Item = Value>, lanes: usize) -> Result<Identity, Trouble> {
        let promotions = infos.by_ref().take(lanes).map(|value| last_promotion(&self.origin, value));
        let promotions: Vec<String> = promotions.collect::<Result<_, _>>()?;
        infos.try_for_each(check_never_evicts)?;
        let promotion = join(promotions.iter().map(String::as_str));
        Ok(Identity { run: self.run.clone(), promotion })
    }
}

impl PendingQuestions {
    /// Stores a value with its question. Returns `None` if no question expects a value on this lane.
    fn fill(&mut self, lane: usize, value: Value) -> Option<()> {
        let (number, index) = self.values_by_lane[lane].pop_front()?;
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

/// Joins one value of each master into one word. The values are sorted, so that the order of the masters does not
/// matter.
fn join<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut values: Vec<&str> = values.filter(|value| !value.is_empty()).collect();
    values.sort_unstable();
    values.join("+")
}

/// Returns the bookmark of the next page, which continues on the same master or starts on the next one.
fn bookmark(cursor: Option<String>, lane: usize, lanes: usize) -> Option<String> {
    match cursor {
        Some(cursor) => Some(format!("{lane} {cursor}")),
        None => (lane + 1 < lanes).then(|| format!("{} 0", lane + 1)),
    }
}

/// Parses a bookmark into lane and cursor. If the Redis Cluster no longer has that many masters, returns the last lane.
fn parse_bookmark(bookmark: &str, lanes: usize) -> (usize, &str) {
    let (lane, cursor) = bookmark.split_once(' ').unwrap_or(("0", "0"));
    (lane.parse().unwrap_or(0).min(lanes - 1), cursor)
}

#[cfg(test)]
mod tests;
