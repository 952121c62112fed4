//! Answers of several connections, put back into the order of the questions.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, MutexGuard};

use ::redis::Value;

use quorlock_core::node::Identity;

use super::{join, malformed};
use crate::node::redis::fitness::{Post, keeps_all, last_promotion};
use crate::node::redis::wire::Receiver;
use crate::node::redis::{codec, hints, history};
use crate::node::{Answer, Inbox, Page, Question, Trouble};
use crate::platform::sync::Mutex;

/// A question, in as many parts as there are values to come.
struct Expected {
    question: Question,
    values: Vec<Option<Value>>,
    missing: usize,
}

/// Where the connections of one session bring their values.
pub(super) struct Reorder {
    inbox: Inbox,
    /// All masters' processes, which cannot change while the connections live.
    run: String,
    state: Mutex<State>,
}

struct State {
    /// Those that have not been answered, oldest first.
    questions: VecDeque<Expected>,
    /// How many have been.
    answered: u64,
    /// For each connection whose parts come next: the number of the question, and the place in it.
    lanes: Vec<VecDeque<(u64, usize)>>,
    /// Somebody hands answers over. Whoever comes meanwhile leaves its own there: two at once would change their order.
    busy: bool,
}

impl Reorder {
    pub(super) fn new(inbox: Inbox, lanes: usize, run: String) -> Self {
        let lanes = (0..lanes).map(|_| VecDeque::new()).collect();
        let state = State { questions: VecDeque::new(), answered: 0, lanes, busy: false };
        Self { inbox, run, state: Mutex::new(state) }
    }

    /// A question is about to leave; `route` says on which connection each of its parts does.
    pub(super) fn expect(&self, question: Question, route: &[usize]) {
        let mut state = self.state();
        let number = state.answered + state.questions.len() as u64;
        for (index, lane) in route.iter().enumerate() {
            state.lanes[*lane].push_back((number, index));
        }
        let (values, missing) = (route.iter().map(|_| None).collect(), route.len());
        state.questions.push_back(Expected { question, values, missing });
    }

    fn take(&self, lane: usize, value: Value) -> Result<(), Trouble> {
        let mut state = self.state();
        state.fill(lane, value).ok_or_else(|| malformed("nothing"))?;
        if state.busy {
            return Ok(());
        }
        state.busy = true;
        while let Some(complete) = state.pop() {
            let lanes = state.lanes.len();
            drop(state);
            // Not under the lock: whoever gets the answer may have the next question at once.
            let answered = complete.answer(&self.run, lanes);
            self.inbox.take(answered.unwrap_or_else(Answer::End));
            state = self.state();
        }
        state.busy = false;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Puts a value where it belongs; `None` if nothing was asked.
    fn fill(&mut self, lane: usize, value: Value) -> Option<()> {
        let (number, index) = self.lanes[lane].pop_front()?;
        let question = self.questions.get_mut(usize::try_from(number - self.answered).ok()?)?;
        question.values[index] = Some(value);
        question.missing -= 1;
        Some(())
    }

    /// The oldest question, if all of its answer is there.
    fn pop(&mut self) -> Option<Expected> {
        self.questions.front().filter(|question| question.missing == 0)?;
        self.answered += 1;
        self.questions.pop_front()
    }
}

impl Expected {
    /// The answer of a node with this many masters.
    fn answer(self, run: &str, lanes: usize) -> Result<Answer, Trouble> {
        let values: Vec<Value> = self.values.into_iter().flatten().collect();
        match self.question {
            Question::Votes(life, messages) => codec::cluster_replies(life, &messages, values).map(Answer::Votes),
            Question::Note(_) => Ok(history::answer(false, values)),
            Question::Recall(_) => Ok(history::answer(true, values)),
            Question::Search(search) => {
                let (lane, _) = open_at(&search.after, lanes);
                Ok(match codec::page(values.first().unwrap_or(&Value::Nil))? {
                    Answer::Page(page) => Answer::Page(Page { next: bookmark(page.next, lane, lanes), ..page }),
                    failed => failed,
                })
            }
            Question::NodeCommand(command) => {
                let mut values = values.into_iter();
                let standing = codec::standing_after(&command, values.by_ref())?;
                let promotions = values.by_ref().take(lanes).map(|value| last_promotion(Post::Cluster, value));
                let promotions: Vec<String> = promotions.collect::<Result<_, _>>()?;
                values.try_for_each(keeps_all)?;
                let promotion = join(promotions.iter().map(String::as_str));
                Ok(Answer::Standing(Box::new(standing), Identity { run: run.to_owned(), promotion }))
            }
        }
    }
}

/// Where the next page is: with the same master, or with the one after it.
fn bookmark(cursor: Option<String>, lane: usize, lanes: usize) -> Option<String> {
    match cursor {
        Some(cursor) => Some(format!("{lane} {cursor}")),
        None => (lane + 1 < lanes).then(|| format!("{} 0", lane + 1)),
    }
}

/// Reads a bookmark. One from another time, when there were more masters, leads to the last.
pub(super) fn open_at(bookmark: &str, lanes: usize) -> (usize, String) {
    let (lane, cursor) = bookmark.split_once(' ').unwrap_or(("0", "0"));
    (lane.parse().unwrap_or(0).min(lanes - 1), cursor.to_owned())
}

/// Hears one connection.
pub(super) struct Ear {
    lane: usize,
    desk: Arc<Reorder>,
}

impl Ear {
    pub(super) fn new(lane: usize, desk: &Arc<Reorder>) -> Self {
        Self { lane, desk: Arc::clone(desk) }
    }
}

impl Receiver for Ear {
    fn receive(&self, value: Value) {
        let inbox = &self.desk.inbox;
        if let Value::Push { kind, data } = value {
            if let Some(hint) = hints::heard(inbox.channel, &kind, &data) {
                inbox.take(hint);
            }
        } else if let Err(trouble) = self.desk.take(self.lane, value) {
            inbox.take(Answer::End(trouble));
        }
    }

    fn is_over(&self) -> bool {
        self.desk.inbox.is_over()
    }

    fn end(&self, error: &io::Error) {
        self.desk.inbox.take(Answer::End(Trouble::Broken(error.to_string())));
    }
}

#[cfg(test)]
mod tests;
