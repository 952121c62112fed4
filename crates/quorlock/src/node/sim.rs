//! Nodes of a simulated world.

use std::cell::Cell;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use quorlock_core::node::{Epoch, Identity};
use tokio::sync::oneshot;

use crate::node::{Answer, Inbox, Node, Question, Reply, Session, Trouble};
use crate::platform::sim::{self, Ear, Said, World, world};

/// Receives the result of a connection attempt: the server's identity, or the reason for the failure.
type Opened = oneshot::Sender<Result<Identity, String>>;

/// Returns `count` simulated nodes.
pub(crate) fn nodes(count: usize) -> Vec<Arc<dyn Node>> {
    let node = |index| Arc::new(SimulatedNode { index, title: format!("n{}", index + 1) }) as Arc<dyn Node>;
    (0..count).map(node).collect()
}

fn hear(inbox: &Inbox, opened: Option<Opened>, said: Said) {
    let answer = match (said, opened) {
        (Said::Open(identity), Some(opened)) => return drop(opened.send(Ok(identity))),
        (Said::End(why), Some(opened)) => return drop(opened.send(Err(why))),
        (_, Some(_)) | (Said::Open(_), None) => return,
        (Said::End(why), None) => Answer::End(Trouble::Broken(why)),
        (Said::Standing(standing, identity), None) => Answer::Standing(standing, identity),
        (Said::Roster(answer, identity), None) => Answer::Roster(answer, identity),
        (Said::Votes(votes, at_micros), None) => {
            let reply = |vote| Reply::Voted { vote, at_micros: Some(at_micros) };
            Answer::Votes(votes.into_iter().map(reply).collect())
        }
        (Said::Noted, None) => Answer::Events(Vec::new()),
        (Said::Nothing, None) => Answer::Failed("a simulated node cannot do this".into()),
        (Said::Hint(ticket, handoff), None) => Answer::Hint(ticket, handoff),
        (Said::Broken(key), None) => Answer::Broken(key),
        (Said::MemoryChanged, None) => Answer::MemoryChanged,
    };
    inbox.deliver(answer);
}

struct SimulatedNode {
    index: usize,
    title: String,
}

impl Node for SimulatedNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>> {
        let index = self.index;
        Box::pin(async move {
            let (opened, answer) = oneshot::channel();
            let opened = Cell::new(Some(opened));
            let ear = Ear::new(inbox.channel, move |said| hear(&inbox, opened.take(), said));
            let connection = with(|world| world.connect(index, ear)).map(Connection);
            let connection = connection.ok_or_else(|| Trouble::Unreachable("the world is gone".into()))?;
            match answer.await {
                Ok(Ok(identity)) => Ok(Box::new(SimulatedSession { connection, identity }) as Box<dyn Session>),
                Ok(Err(why)) => Err(Trouble::Unreachable(why)),
                Err(_) => Err(Trouble::Unreachable("the world is gone".into())),
            }
        })
    }
}

/// The number of a connection. Dropping it closes the connection.
struct Connection(u64);

impl Drop for Connection {
    fn drop(&mut self) {
        with(|world| world.hang_up(self.0));
    }
}

struct SimulatedSession {
    connection: Connection,
    identity: Identity,
}

impl Session for SimulatedSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        let question = match question {
            Question::NodeCommand(command) => sim::Question::NodeCommand(command),
            Question::Roster(command) => sim::Question::Roster(command),
            Question::Votes(life, batch) => {
                let epoch = life.map_or(Epoch(0), |life| life.epoch);
                let messages = batch.into_iter().map(|message| (message.key.text.clone(), message.request));
                sim::Question::Batch(epoch, messages.collect())
            }
            Question::Note(_) => sim::Question::Note,
            Question::Search(_) | Question::Recall(_) => sim::Question::Other,
        };
        with(|world| world.ask(self.connection.0, question));
    }
}

fn with<T>(tell: impl FnOnce(&dyn World) -> T) -> Option<T> {
    world().map(|world| tell(&*world))
}
