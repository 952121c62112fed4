//! The thread that owns the SQLite connection. The thread answers questions in transactions.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use quorlock_core::fence::Fence;
use quorlock_core::node::roster::{self, RosterAnswer, RosterCommand, apply_roster};
use quorlock_core::node::{Epoch, Identity, NodeCommand, NodeTime, Record, Standing, apply, attend};
use quorlock_core::request::{Request, Waiter};
use quorlock_core::vote::{Refusal, Vote};
use rusqlite::{Connection, Transaction};

use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::listener::Listener;
use crate::node::sqlite::processes::Processes;
use crate::node::sqlite::store::{self, NodeRow};
use crate::node::sqlite::{Clock, database, dead, file, history, record, reserve};
use crate::node::{Answer, Inbox, Message, Question, Reply, Trouble};
use crate::platform::entropy;

/// The approximate limit on the number of requests per transaction.
const MESSAGES_MAX: usize = 1_024;
/// The number of requests between two sweeps. A sweep visits twice as many records, so the sweeps visit records faster
/// than requests can create them.
const SWEEP_EVERY: u32 = store::SWEEP_MAX / 2;
/// The number of transactions between two checkpoints.
const CHECKPOINT_EVERY: u32 = 256;

/// Returns the vote requests in a question.
fn messages(question: &Question) -> &[Message] {
    if let Question::Votes(_, messages) = question { messages } else { &[] }
}

/// Returns the vote requests in a question, each with its reply.
fn replies<'a>((question, answer): (&'a Question, &'a Answer)) -> impl Iterator<Item = (&'a Message, &'a Reply)> {
    let replies = if let Answer::Votes(replies) = answer { replies.as_slice() } else { &[] };
    messages(question).iter().zip(replies)
}

/// Returns the answer to a question after the transaction was rolled back.
fn failure(question: &Question, is_transient: bool, text: String) -> Answer {
    match question {
        _ if !is_transient => Answer::End(Trouble::Broken(text)),
        Question::NodeCommand(_) | Question::Roster(_) => Answer::End(Trouble::Unreachable(text)),
        Question::Votes(_, messages) => Answer::Votes(vec![Reply::Failed(text); messages.len()]),
        Question::Search(_) | Question::Note(_) | Question::Recall(_) => Answer::Failed(text),
    }
}

/// The state of the thread.
pub(super) struct Worker {
    connection: Connection,
    path: PathBuf,
    boot: String,
    processes: Processes,
    clock: Clock,
    inbox: Inbox,
    listener: Listener,
    /// The highest reserve that this connection has synced to disk.
    synced: u64,
    /// The number of requests since the last sweep.
    unswept_requests: u32,
    /// The number of transactions since the last checkpoint.
    commits_in_log: u32,
}

impl Worker {
    /// Opens the file.
    pub(super) fn open(
        path: PathBuf,
        boot: String,
        processes: Processes,
        clock: Clock,
        inbox: Inbox,
    ) -> Result<Self, Trouble> {
        file::prepare(&path)?;
        let opened = database::open(&path, clock().wall_micros);
        let (connection, synced) = opened.map_err(|fault| fault.to_open_trouble(&path))?;
        // Start at a random count: a process that sends only a few requests must also sweep sometimes.
        let unswept_requests = (entropy::bits() % u128::from(SWEEP_EVERY)) as u32;
        // Such a process would never run a checkpoint either. If the log is long, run a checkpoint after the first
        // transaction.
        let commits_in_log = if file::log_bytes(&path) > database::LOG_BYTES_MAX { CHECKPOINT_EVERY } else { 0 };
        let listener = Listener::new(inbox.clone());
        Ok(Self { connection, path, boot, processes, clock, inbox, listener, synced, unswept_requests, commits_in_log })
    }

    /// Runs until the session is dropped and every queued question is answered.
    pub(super) fn run(&mut self, queue: &Receiver<Question>) {
        loop {
            match self.next(queue) {
                Ok(first) => {
                    self.answer_queued(first, queue);
                    // Poll for hints even if the queue of questions never becomes empty.
                    if self.listener.is_poll_due() {
                        self.poll_hints();
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.poll_hints(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn poll_hints(&mut self) {
        self.listener.poll(&self.connection, (self.clock)());
    }

    /// Waits for the next question, or until the next poll for hints is due.
    fn next(&self, queue: &Receiver<Question>) -> Result<Question, RecvTimeoutError> {
        match self.listener.next_poll_in() {
            Some(time) => queue.recv_timeout(time),
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Answers `first` and the questions that are queued by then.
    fn answer_queued(&mut self, first: Question, queue: &Receiver<Question>) {
        let mut questions = vec![first];
        let (answers, hints) = self.transact(&mut questions, queue).unwrap_or_else(|fault| {
            gather(&mut questions, queue);
            let text = format!("{}: {fault}", self.path.display());
            let failed = |question| failure(question, fault.is_transient(), text.clone());
            (questions.iter().map(failed).collect(), Vec::new())
        });
        // Deliver hints after the replies: a waiter that was refused in the same transaction must get the refusal
        // first.
        for answer in answers.into_iter().chain(hints) {
            self.inbox.deliver(answer);
        }
        self.checkpoint_if_due();
    }

    /// Executes these questions in one transaction, together with the questions that are queued when the transaction
    /// starts. Returns the answers, and the hints for this client.
    fn transact(
        &mut self,
        questions: &mut Vec<Question>,
        queue: &Receiver<Question>,
    ) -> Result<(Vec<Answer>, Vec<Answer>), Fault> {
        let mut transaction = database::begin_here(&self.connection)?;
        gather(questions, queue);
        let mut now = (self.clock)();
        let mut before = store::load_node(&transaction)?;
        let may_grant = questions.iter().flat_map(messages).any(|message| message.request.may_grant());
        if may_grant && before.synced_reserve.max(self.synced) < reserve::needed(&before, now) {
            transaction.rollback()?;
            self.synced = self.synced.max(reserve::raise(&self.connection, &self.clock)?);
            transaction = database::begin_here(&self.connection)?;
            now = (self.clock)();
            before = store::load_node(&transaction)?;
        }
        let mut node = before.clone();
        if may_grant {
            node.synced_reserve = node.synced_reserve.max(self.synced.min(node.reserve));
        }
        let (mut answers, mut hints) = (Vec::with_capacity(questions.len()), Vec::new());
        for question in &*questions {
            answers.push(match question {
                Question::NodeCommand(command) => {
                    let standing = run_node_command(&transaction, &mut node, command, now)?;
                    Answer::Standing(Box::new(standing), Identity::of_run(self.boot.as_str()))
                }
                Question::Roster(command) => {
                    let answer = run_roster_command(&transaction, &mut node, command, now)?;
                    Answer::Roster(Box::new(answer), Identity::of_run(self.boot.as_str()))
                }
                Question::Note(events) => {
                    history::note(&transaction, events)?;
                    Answer::Events(Vec::new())
                }
                Question::Recall(limit) => Answer::Events(history::recall(&transaction, *limit)?),
                Question::Search(search) => Answer::Page(store::search(&transaction, search, now)?),
                Question::Votes(life, messages) => {
                    let epoch = life.map_or(Epoch(0), |life| life.epoch);
                    let mut replies = Vec::with_capacity(messages.len());
                    for message in messages {
                        let (reply, hint) =
                            answer(&transaction, &node, &self.boot, &self.processes, message, epoch, now)?;
                        hints.extend(self.listener.publish_hint(&transaction, hint, now)?);
                        if let Reply::Voted { vote: Vote::Broken { .. }, .. } = reply {
                            hints.push(Listener::publish_break(&transaction, &message.key.text, now)?);
                        }
                        replies.push(reply);
                    }
                    Answer::Votes(replies)
                }
            });
        }
        let writes = questions.iter().flat_map(messages).filter(|message| !message.request.is_read_only()).count();
        self.unswept_requests = self.unswept_requests.saturating_add(writes as u32);
        if self.unswept_requests >= SWEEP_EVERY {
            self.unswept_requests = 0;
            store::sweep(&transaction, &mut node, now)?;
        }
        store::save_node(&transaction, &before, &node)?;
        if writes > 0 {
            self.listener.delete_delivered(&transaction)?;
        }
        transaction.commit()?;
        self.listener.update(questions.iter().zip(&answers).flat_map(replies), now);
        Ok((answers, hints))
    }

    /// Counts a transaction, and runs a checkpoint after every [`CHECKPOINT_EVERY`] transactions.
    fn checkpoint_if_due(&mut self) {
        self.commits_in_log += 1;
        if self.commits_in_log >= CHECKPOINT_EVERY {
            self.commits_in_log = 0;
            // Ignore a failure: the next transaction that needs the disk fails too, and reports the error.
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}

/// Adds queued questions until there are about [`MESSAGES_MAX`] requests.
fn gather(questions: &mut Vec<Question>, queue: &Receiver<Question>) {
    let size = |question: &Question| messages(question).len().max(1);
    let mut gathered: usize = questions.iter().map(size).sum();
    while gathered < MESSAGES_MAX {
        let Ok(question) = queue.try_recv() else { break };
        gathered += size(&question);
        questions.push(question);
    }
}

fn run_node_command(
    transaction: &Transaction<'_>,
    node: &mut NodeRow,
    node_command: &NodeCommand,
    now: NodeTime,
) -> Result<Standing, Fault> {
    let before = node.life.clone();
    let mut standing = attend(&mut node.life, node_command, now);
    let Some(life) = &mut node.life else { return Ok(standing) };
    let is_other_run = before.as_ref().is_none_or(|before| before.identity.run != life.identity.run);
    let is_new = is_other_run || before.as_ref().is_none_or(|before| before.epoch != life.epoch);
    // Times that were stored in another boot are meaningless now. If an operator starts a new incarnation within the
    // same boot, the node keeps its records.
    if is_other_run || (is_new && !matches!(node_command, NodeCommand::Init { .. } | NodeCommand::Reconfigure { .. })) {
        store::wipe(transaction)?;
    }
    if is_new || before.is_none_or(|before| before.floor != life.floor) {
        life.floor = life.floor.map(|floor| floor.max(Fence::new(node.reserve)));
        standing.life = Some(life.clone());
    }
    Ok(standing)
}

fn run_roster_command(
    transaction: &Transaction<'_>,
    node: &mut NodeRow,
    command: &RosterCommand,
    now: NodeTime,
) -> Result<RosterAnswer, Fault> {
    let before = node.membership.clone();
    let mut answer = apply_roster(&mut node.membership, command, now);
    let Some(membership) = &mut node.membership else { return Ok(answer) };
    if before.as_ref().is_none_or(|before| before.identity.run != membership.identity.run) {
        // Times that were stored in another boot are meaningless now.
        store::wipe(transaction)?;
    }
    if before.is_none_or(|before| (before.life, before.floor) != (membership.life, membership.floor)) {
        membership.floor = membership.floor.map(|floor| floor.max(Fence::new(node.reserve)));
        answer.membership = Some(membership.clone());
    }
    Ok(answer)
}

fn answer(
    transaction: &Transaction<'_>,
    node: &NodeRow,
    boot: &str,
    processes: &Processes,
    message: &Message,
    epoch: Epoch,
    now: NodeTime,
) -> Result<(Reply, Option<Waiter>), Fault> {
    let Some(life) = node.incarnation() else { return Ok((Reply::Failed("the node is blank".into()), None)) };
    let (key, request) = (message.key.text.as_str(), &*message.request);
    let voted = |vote| Reply::Voted { vote, at_micros: Some(now.wall_micros) };
    if life.identity.run != boot && request.needs_epoch() {
        return Ok((voted(Vote::Refusal(Refusal::WrongEpoch)), None));
    }
    let mut record = record::load(transaction, key, request)?;
    if let Some(note) = record.fence.as_mut().filter(|note| note.fence >= node.lowest_kept_fence(now)) {
        // Keep the fence while a later fence could be lower. The floor may have put the fence far ahead of the clock.
        note.until = note.until.max(now.life_millis);
    }
    // A waiter of another process may be dead. So never hand the vote to a waiter: a waiter gets a hint, and then asks.
    let ask = |record: &mut Record, request: &Request| match &node.membership {
        Some(membership) => roster::vote(membership, record, request, epoch, now, |_| false),
        None => apply(&life, record, request, epoch, now, |_| false),
    };
    if request.is_read_only() {
        // A read-only request must not write. It shows the state without the dead processes, but deletes no rows.
        for release in dead::releases_owed(transaction, key, &record, processes, None)? {
            ask(&mut record, &release);
        }
        return Ok((voted(ask(&mut record, request).vote), None));
    }
    let before = record.clone();
    let mut answer = ask(&mut record, request);
    if dead::is_refused_for_others(request, &answer.vote) {
        let tombstone = Some(life.constants.max_ttl_millis);
        let owed = dead::releases_owed(transaction, key, &before, processes, tombstone)?;
        if !owed.is_empty() {
            record = before.clone();
            let mut hint = None;
            for release in owed {
                hint = ask(&mut record, &release).hint.or(hint);
            }
            answer = ask(&mut record, request);
            if matches!(answer.vote, Vote::Refusal(_)) {
                // As after any release, the next waiter may be able to acquire the lock, and needs a hint.
                answer.hint = hint;
            }
        }
    }
    if let Vote::Grant { fence, .. } = answer.vote
        && request.may_grant()
        && fence.get() >= node.synced_reserve
    {
        // Nothing has been written for this request yet.
        let why = format!("fence {fence} is not below the reserve of {}: not granted", node.synced_reserve);
        return Ok((Reply::Failed(why), None));
    }
    record.forget_requests();
    if record != before {
        // The row of a broken lock must not depend on the processes of the client that broke the lock.
        let list = processes.list().filter(|_| !matches!(request, Request::Break { .. }));
        record::save(transaction, key, &before, &record, list.as_deref())?;
    }
    Ok((voted(answer.vote), answer.hint))
}
