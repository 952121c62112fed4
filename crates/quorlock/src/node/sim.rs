//! Nodes that are somewhere in the world.

use std::cell::Cell;
use std::sync::Arc;

use quorlock_core::node::{Epoch, Identity, NodeCommand};
use tokio::sync::oneshot;

use crate::node::{Answer, BoxFuture, History, Inbox, Life, Message, Node, Reply, Search, Session, Trouble};
use crate::platform::sim::{Ear, Question, Said, World, world};

/// Who waits for a connection to come about: the server's identity, or why there is none.
type Opened = oneshot::Sender<Result<Identity, String>>;

/// So many nodes.
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
        (Said::Votes(votes, at_micros), None) => {
            let reply = |vote| Reply::Voted { vote, at_micros: Some(at_micros) };
            Answer::Replies(votes.into_iter().map(reply).collect())
        }
        (Said::Noted, None) => Answer::History(Ok(Vec::new())),
        (Said::Nothing, None) => Answer::Page(Err("nobody looks for names in a simulation".into())),
        (Said::Hint(ticket, handoff), None) => Answer::Hint(ticket, handoff),
        (Said::Broken(key), None) => Answer::Broken(key),
        (Said::MemoryChanged, None) => Answer::MemoryChanged,
    };
    inbox.take(answer);
}

struct SimulatedNode {
    index: usize,
    title: String,
}

impl Node for SimulatedNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
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

/// A connection's number. Dropped, it is hung up.
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

impl SimulatedSession {
    fn ask(&self, question: Question) {
        with(|world| world.ask(self.connection.0, question));
    }
}

impl Session for SimulatedSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn node_command(&mut self, node_command: NodeCommand) {
        self.ask(Question::NodeCommand(node_command));
    }

    fn search(&mut self, _search: Search) {
        self.ask(Question::Other);
    }

    fn history(&mut self, _history: History) {
        self.ask(Question::Note);
    }

    fn send(&mut self, life: Option<Life>, batch: Vec<Message>) {
        let epoch = life.map_or(Epoch(0), |life| life.epoch);
        let messages = batch.into_iter().map(|message| (message.key.text.clone(), message.request));
        self.ask(Question::Batch(epoch, messages.collect()));
    }
}

fn with<T>(tell: impl FnOnce(&dyn World) -> T) -> Option<T> {
    world().map(|world| tell(&*world))
}
