//! A sequential client of one node: sends a question, then waits for its answer.

use std::time::Duration;

use quorlock_core::name::Channel;
#[cfg(test)]
use quorlock_core::node::roster::{RosterAnswer, RosterCommand};
use quorlock_core::node::{Identity, NodeCommand, Standing};
use tokio::sync::mpsc;

use crate::node::{Answer, Inbox, Life, Message, Node, Page, Question, Reply, Search, Session, Trouble};
use crate::platform::runtime;

/// The longest time that each step of an operator's command may take on each node.
pub(crate) const STEP_DEADLINE: Duration = Duration::from_secs(5);

/// Limits the duration of one step.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    runtime::timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(Trouble::Unreachable(format!("no answer within {limit:?}"))))
}

/// A session that this caller alone uses.
pub(crate) struct RequestReply {
    session: Box<dyn Session>,
    answers: mpsc::UnboundedReceiver<Answer>,
    /// The reason why the session ended, returned again to every later call.
    ended: Option<Trouble>,
}

impl RequestReply {
    /// Connects, and subscribes to hints on this channel.
    pub(crate) async fn open(node: &(impl Node + ?Sized), channel: Channel) -> Result<Self, Trouble> {
        let (inbox, answers) = Inbox::queue(channel);
        Ok(Self { session: node.open(inbox).await?, answers, ended: None })
    }

    pub(crate) fn identity(&self) -> &Identity {
        self.session.identity()
    }

    pub(crate) async fn node_command(&mut self, command: NodeCommand) -> Result<Standing, Trouble> {
        self.post(Question::NodeCommand(command));
        let Answer::Standing(standing, _) = self.next().await? else { return Err(out_of_turn()) };
        Ok(*standing)
    }

    #[cfg(test)]
    pub(crate) async fn roster_command(&mut self, command: RosterCommand) -> Result<(RosterAnswer, Identity), Trouble> {
        self.post(Question::Roster(command));
        let Answer::Roster(answer, identity) = self.next().await? else { return Err(out_of_turn()) };
        Ok((*answer, identity))
    }

    /// Sends a question. The caller must await the answers in the order of the questions.
    pub(crate) fn post(&mut self, question: Question) {
        self.session.ask(question);
    }

    /// Waits for the answer to the oldest question, which must be a request for votes.
    pub(crate) async fn replies(&mut self) -> Result<Vec<Reply>, Trouble> {
        let Answer::Votes(replies) = self.next().await? else { return Err(out_of_turn()) };
        Ok(replies)
    }

    pub(crate) async fn send(&mut self, life: Option<Life>, batch: Vec<Message>) -> Result<Vec<Reply>, Trouble> {
        self.post(Question::Votes(life, batch));
        self.replies().await
    }

    /// Fetches one page of keys.
    pub(crate) async fn search(&mut self, search: Search) -> Result<Page, Trouble> {
        self.post(Question::Search(search));
        match self.next().await? {
            Answer::Page(page) => Ok(page),
            Answer::Failed(why) => Err(Trouble::Broken(why)),
            _ => Err(out_of_turn()),
        }
    }

    /// Waits for the answer to the oldest question.
    async fn next(&mut self) -> Result<Answer, Trouble> {
        loop {
            if let Some(trouble) = &self.ended {
                return Err(trouble.clone());
            }
            match self.answers.recv().await {
                Some(Answer::Hint(..) | Answer::Broken(_) | Answer::MemoryChanged) => {}
                Some(Answer::End(trouble)) => self.ended = Some(trouble),
                Some(answer) => return Ok(answer),
                None => self.ended = Some(Trouble::Broken("the session has ended".into())),
            }
        }
    }
}

fn out_of_turn() -> Trouble {
    Trouble::Broken("an answer out of turn".into())
}

#[cfg(test)]
mod tests {
    use quorlock_core::request::Ticket;
    use quorlock_core::vote::Handoff;

    use super::*;

    impl RequestReply {
        /// Connects, and delivers hints to a separate queue.
        pub(crate) async fn listening(
            node: &dyn Node,
            channel: Channel,
        ) -> Result<(Self, mpsc::UnboundedReceiver<(Ticket, Option<Handoff>)>), Trouble> {
            let (sender, answers) = mpsc::unbounded_channel();
            let (hints, heard) = mpsc::unbounded_channel();
            let inbox = Inbox::new(channel, move |answer| match answer {
                Answer::Hint(ticket, handoff) => drop(hints.send((ticket, handoff))),
                answer => drop(sender.send(answer)),
            });
            Ok((Self { session: node.open(inbox).await?, answers, ended: None }, heard))
        }

        /// Ends the session, and returns the queue of answers that may still arrive.
        pub(crate) fn hang_up(self) -> mpsc::UnboundedReceiver<Answer> {
            self.answers
        }
    }
}
