//! Nodes in this process's memory, for tests and embedding. Each node applies the rules of quorlock-core under a mutex.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use quorlock_core::name::Channel;
use quorlock_core::node::roster::{self, Membership, apply_roster};
use quorlock_core::node::{Epoch, Identity, Incarnation, NodeTime, Record, apply, attend};
use quorlock_core::vote::Vote;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::node::event::{Event, HISTORY_MAX};
use crate::node::{Answer, Inbox, Life, Message, Node, PAGE_MAX, Page, Question, Reply, Search, Session, Trouble};
use crate::platform::sync::Mutex;
use crate::platform::{clock, entropy};

/// Nodes in this process's memory. Clients that get clones of one `MemoryNodes` share the nodes.
///
/// Tests and demonstrations can make each node fail like a server: [freeze](Self::freeze) and [thaw](Self::thaw) a
/// node, take a node [down](Self::down) and [up](Self::up) again, or [restart a node empty](Self::restart_empty).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use quorlock::{Client, MemoryNodes};
///
/// let nodes = MemoryNodes::new(3);
/// let ours = Client::builder().memory(&nodes).init_cluster().await?;
/// let theirs = Client::builder().memory(&nodes).connect().await?;
/// let lease = ours.lock("report").acquire().await?;
/// assert!(theirs.lock("report").try_acquire().await?.is_none());
/// # drop(lease);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MemoryNodes {
    nodes: Vec<MemoryNode>,
}

impl MemoryNodes {
    /// Creates blank nodes. Connect the first client with [`init_cluster`](crate::ClientBuilder::init_cluster), unless
    /// there is only one node: otherwise the nodes are quarantined first.
    ///
    /// The nodes and their clients use real time, also if tokio's time is paused. Tests use short ttls instead.
    pub fn new(nodes: usize) -> Self {
        let node = |index| {
            let (title, state) = (format!("memory:{index}"), Arc::new(Mutex::new(NodeMemory::new())));
            MemoryNode { title, state, thawed: Arc::default() }
        };
        Self { nodes: (0..nodes).map(node).collect() }
    }

    /// Restarts the node with an empty memory, and closes every connection to it. Afterwards the node is up and not
    /// frozen.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn restart_empty(&self, node: usize) {
        let node = &self.nodes[node];
        let mut state = node.state.lock();
        *state = NodeMemory { generation: state.generation + 1, ..NodeMemory::new() };
        drop(state);
        node.thawed.notify_waiters();
    }

    /// Stops the node like a process that gets SIGSTOP: its connections stay open, and the node answers pending
    /// requests after a [thaw](Self::thaw).
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn freeze(&self, node: usize) {
        self.nodes[node].state.lock().frozen = true;
    }

    /// Resumes a frozen node. The node first executes, in order, every request that arrived while it was frozen, even
    /// if the client no longer waits for the reply.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use quorlock::{Client, MemoryNodes};
    ///
    /// let nodes = MemoryNodes::new(3);
    /// let client = Client::builder().memory(&nodes).init_cluster().await?;
    /// nodes.freeze(0);
    /// let lease = client.lock("report").acquire().await?; // two of three are a majority
    /// nodes.thaw(0);
    /// # drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn thaw(&self, node: usize) {
        let node = &self.nodes[node];
        let mut state = node.state.lock();
        state.frozen = false;
        for (generation, question, answers) in std::mem::take(&mut state.unanswered) {
            state.receive(generation, question, &answers);
        }
        drop(state);
        node.thawed.notify_waiters();
    }

    /// Closes every connection to the node. The node accepts no new ones until it is [up](Self::up) again.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn down(&self, node: usize) {
        let mut state = self.nodes[node].state.lock();
        state.generation += 1;
        state.down = true;
    }

    /// Makes the node reachable again. The node still has its memory.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn up(&self, node: usize) {
        self.nodes[node].state.lock().down = false;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<dyn Node>> + '_ {
        self.nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn Node>)
    }
}

#[derive(Clone, Debug)]
struct MemoryNode {
    title: String,
    state: Arc<Mutex<NodeMemory>>,
    thawed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct NodeMemory {
    identity: Identity,
    /// Incremented when all connections close. A session of an earlier generation is disconnected.
    generation: u64,
    down: bool,
    frozen: bool,
    /// Questions that arrived while the node was frozen: for each, the session's generation, the question, and the
    /// channel for the answer.
    unanswered: Vec<(u64, Question, mpsc::UnboundedSender<Answer>)>,
    life: Option<Incarnation>,
    membership: Option<Membership>,
    records: HashMap<String, Record>,
    /// Sessions that receive hints.
    listeners: HashMap<Channel, mpsc::UnboundedSender<Answer>>,
    /// The number of requests since the last sweep.
    unswept: usize,
    /// The number of records and tombstones that the last sweep left.
    left_by_sweep: usize,
    /// Recent events, newest last.
    history: VecDeque<Arc<Event>>,
}

impl NodeMemory {
    fn new() -> Self {
        Self { identity: Identity::of_run(format!("{:032x}", entropy::bits())), ..Self::default() }
    }

    /// Answers a question, or queues it if the node is frozen.
    fn receive(&mut self, generation: u64, question: Question, answers: &mpsc::UnboundedSender<Answer>) {
        let answer = if generation != self.generation {
            Answer::End(Trouble::Broken("the node closed the connection".into()))
        } else if self.frozen {
            self.unanswered.push((generation, question, answers.clone()));
            return;
        } else {
            self.answer(question, time())
        };
        // Ignore a failure: a client that has disconnected misses the answer.
        let _ = answers.send(answer);
    }

    fn answer(&mut self, question: Question, now: NodeTime) -> Answer {
        match question {
            Question::NodeCommand(command) => {
                Answer::Standing(Box::new(attend(&mut self.life, &command, now)), self.identity.clone())
            }
            Question::Roster(command) => {
                let answer = apply_roster(&mut self.membership, &command, now);
                Answer::Roster(Box::new(answer), self.identity.clone())
            }
            Question::Votes(life, batch) => {
                self.sweep(batch.len(), now);
                Answer::Votes(batch.iter().map(|message| self.vote(life, message, now)).collect())
            }
            Question::Search(search) => Answer::Page(self.search(&search, now)),
            Question::Note(events) => {
                self.history.extend(events);
                let surplus = self.history.len().saturating_sub(HISTORY_MAX);
                self.history.drain(..surplus);
                Answer::Events(Vec::new())
            }
            Question::Recall(limit) => {
                Answer::Events(self.history.iter().rev().take(limit).map(|event| Event::clone(event)).collect())
            }
        }
    }

    fn search(&mut self, search: &Search, now: NodeTime) -> Page {
        let mut keys: Vec<&String> =
            self.records.keys().filter(|key| **key > search.after && search.span.matches(key)).collect();
        keys.sort_unstable();
        let next = keys.get(PAGE_MAX).and(keys.get(PAGE_MAX - 1)).map(|last| (*last).clone());
        keys.truncate(PAGE_MAX);
        let is_in_use = |key: &&String| {
            let mut record = self.records[*key].clone();
            record.remove_expired(now);
            record.vote.is_some() || !record.queue.is_empty()
        };
        Page { keys: keys.into_iter().filter(is_in_use).cloned().collect(), next }
    }

    fn vote(&mut self, asked_life: Option<Life>, message: &Message, now: NodeTime) -> Reply {
        let key = &message.key.text;
        let record = match self.records.get_mut(key) {
            Some(record) => record,
            None => self.records.entry(key.clone()).or_default(),
        };
        let epoch = asked_life.map_or(Epoch(0), |life| life.epoch);
        let listener = |channel| self.listeners.get(&channel).filter(|listener| !listener.is_closed());
        let can_hear = |channel| listener(channel).is_some();
        let answer = match (&self.membership, &self.life) {
            (Some(membership), _) => roster::vote(membership, record, &message.request, epoch, now, can_hear),
            (None, Some(life)) => apply(life, record, &message.request, epoch, now, can_hear),
            (None, None) => return Reply::Failed("the node is blank".into()),
        };
        if let Vote::Broken { .. } = answer.vote {
            for listener in self.listeners.values() {
                // Ignore a failure: a session that has ended holds no lease.
                let _ = listener.send(Answer::Broken(message.key.text.clone()));
            }
        }
        if let Some(hint) = answer.hint
            && let Some(listener) = listener(hint.channel)
        {
            // Ignore a failure: a session that has ended has no waiters.
            let _ = listener.send(Answer::Hint(hint.ticket, answer.handoff));
        }
        Reply::Voted { vote: answer.vote, at_micros: Some(now.wall_micros) }
    }

    /// Removes expired records and tombstones. The next sweep waits for as many requests as this sweep leaves records
    /// and tombstones, so the cost of sweeps per request stays constant.
    fn sweep(&mut self, requests: usize, now: NodeTime) {
        self.unswept += requests;
        if self.unswept < self.left_by_sweep + 1_024 {
            return;
        }
        (self.unswept, self.left_by_sweep) = (0, 0);
        self.records.retain(|_, record| {
            record.remove_expired(now);
            record.sweep_tombstones(now);
            let size = usize::from(!record.is_empty()) + record.tombstones.len() + record.retired.len();
            self.left_by_sweep += size;
            size > 0
        });
    }
}

impl MemoryNode {
    /// Opens a session. Returns `None` while the node is frozen.
    fn try_open(&self, inbox: &Inbox) -> Option<Result<Box<dyn Session>, Trouble>> {
        let mut state = self.state.lock();
        if state.down {
            return Some(Err(Trouble::Unreachable("it is down".into())));
        }
        if state.frozen {
            return None;
        }
        let (identity, generation) = (state.identity.clone(), state.generation);
        let (answers, mut outgoing) = mpsc::unbounded_channel();
        state.listeners.retain(|_, listener| !listener.is_closed());
        state.listeners.insert(inbox.channel, answers.clone());
        drop(state);
        let inbox = inbox.clone();
        // Deliver from a task and not from within `ask`: the caller may hold a lock that the inbox needs.
        let mut delivery = JoinSet::new();
        delivery.spawn(async move {
            while let Some(answer) = outgoing.recv().await {
                inbox.deliver(answer);
            }
        });
        Some(Ok(Box::new(MemorySession { node: self.clone(), identity, generation, answers, _delivery: delivery })))
    }
}

impl Node for MemoryNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>> {
        let node = self.clone();
        Box::pin(async move {
            loop {
                let thawed = node.thawed.notified();
                if let Some(opened) = node.try_open(&inbox) {
                    return opened;
                }
                thawed.await;
            }
        })
    }
}

struct MemorySession {
    node: MemoryNode,
    identity: Identity,
    generation: u64,
    answers: mpsc::UnboundedSender<Answer>,
    _delivery: JoinSet<()>,
}

impl Session for MemorySession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        self.node.state.lock().receive(self.generation, question, &self.answers);
    }
}

fn time() -> NodeTime {
    NodeTime { wall_micros: clock::wall_micros(), life_millis: clock::now().as_nanos() / 1_000_000 }
}

#[cfg(test)]
mod tests;
