//! The thread that owns the file, and what it does in one transaction.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use quorlock_core::fence::Fence;
use quorlock_core::node::{Epoch, Errand, NodeTime, Standing, apply, attend};
use quorlock_core::vote::{Refusal, Vote};
use rusqlite::{Connection, Transaction};
use tokio::sync::oneshot;

use crate::entropy;
use crate::node::sqlite::fault::Fault;
use crate::node::sqlite::store::{self, NodeNote};
use crate::node::sqlite::{Clock, database, file, reserve};
use crate::node::{Letter, Life, Reply, Trouble};

/// About how many requests share one transaction at most.
const LETTERS_MAX: usize = 1_024;
/// A sweep looks at twice as many records as there were requests since the last: it keeps up with any growth.
const SWEEP_EVERY: u32 = store::SWEEP_MAX / 2;
/// After so many transactions the log is written back, at leisure.
const CHECKPOINT_EVERY: u32 = 256;

/// What the thread is asked to do.
pub(super) enum Job {
    Errand(Box<Asked<Errand, Standing>>),
    Letters(Asked<(Option<Life>, Vec<Letter>), Vec<Reply>>),
}

/// A question, the answer to it so far, and who waits for that.
pub(super) struct Asked<Q, A> {
    question: Q,
    answer: Result<A, Trouble>,
    reply: oneshot::Sender<Result<A, Trouble>>,
}

impl<Q, A> Asked<Q, A> {
    pub(super) fn new(question: Q, reply: oneshot::Sender<Result<A, Trouble>>) -> Self {
        Self { question, answer: Err(Trouble::Broken("nothing was done".into())), reply }
    }
}

impl Job {
    fn letters(&self) -> &[Letter] {
        match self {
            Self::Errand(_) => &[],
            Self::Letters(asked) => &asked.question.1,
        }
    }

    /// Whatever was answered did not come to pass.
    fn fail(&mut self, transient: bool, text: &str) {
        match self {
            Self::Errand(asked) if transient => asked.answer = Err(Trouble::Unreachable(text.into())),
            Self::Errand(asked) => asked.answer = Err(Trouble::Broken(text.into())),
            Self::Letters(asked) if transient => {
                asked.answer = Ok(vec![Reply::Failed(text.into()); asked.question.1.len()]);
            }
            Self::Letters(asked) => asked.answer = Err(Trouble::Broken(text.into())),
        }
    }

    /// Tells whoever still waits.
    fn tell(self) {
        match self {
            Self::Errand(asked) => drop(asked.reply.send(asked.answer)),
            Self::Letters(asked) => drop(asked.reply.send(asked.answer)),
        }
    }
}

/// The thread's own.
pub(super) struct Worker {
    connection: Connection,
    path: PathBuf,
    boot: String,
    clock: Clock,
    /// The highest reserve that this very connection has put on the disk.
    synced: u64,
    /// How many requests there were since the last sweep.
    unswept: u32,
    /// How many transactions there were since the log was last written back.
    unwritten: u32,
}

impl Worker {
    /// Opens the file.
    pub(super) fn open(path: PathBuf, boot: String, clock: Clock) -> Result<Self, Trouble> {
        file::prepare(&path)?;
        let opened = database::open(&path, clock().wall_micros);
        let (connection, synced) = opened.map_err(|fault| fault.at_opening(&path))?;
        // Processes that live for a few requests only have to take turns at sweeping.
        let unswept = (entropy::bits() % u128::from(SWEEP_EVERY)) as u32;
        Ok(Self { connection, path, boot, clock, synced, unswept, unwritten: 0 })
    }

    /// Works until the session is gone, and everything that it has queued is done.
    pub(super) fn run(&mut self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let mut jobs = vec![first];
            if let Err(fault) = self.transact(&mut jobs, queue) {
                gather(&mut jobs, queue);
                let text = format!("{}: {fault}", self.path.display());
                for job in &mut jobs {
                    job.fail(fault.is_transient(), &text);
                }
            }
            jobs.into_iter().for_each(Job::tell);
            self.write_back();
        }
    }

    /// Does all jobs, and those that have queued up meanwhile, or none.
    fn transact(&mut self, jobs: &mut Vec<Job>, queue: &Receiver<Job>) -> Result<(), Fault> {
        let mut transaction = database::begin_here(&self.connection)?;
        gather(jobs, queue);
        let mut now = (self.clock)();
        let mut before = store::load_node(&transaction)?;
        let may_grant = jobs.iter().flat_map(Job::letters).any(|letter| letter.request.may_grant());
        if may_grant && before.sure.max(self.synced) < reserve::needed(&before, now) {
            transaction.rollback()?;
            self.synced = self.synced.max(reserve::raise(&self.connection, &self.clock)?);
            transaction = database::begin_here(&self.connection)?;
            now = (self.clock)();
            before = store::load_node(&transaction)?;
        }
        let mut node = before.clone();
        node.sure = node.sure.max(self.synced.min(node.reserve));
        for job in jobs.iter_mut() {
            match job {
                Job::Errand(asked) => asked.answer = Ok(run_errand(&transaction, &mut node, &asked.question, now)?),
                Job::Letters(asked) => {
                    let (life, letters) = &asked.question;
                    let epoch = life.map_or(Epoch(0), |life| life.epoch);
                    let answer = |letter| answer(&transaction, &node, &self.boot, letter, epoch, now);
                    asked.answer = Ok(letters.iter().map(answer).collect::<Result<_, _>>()?);
                }
            }
        }
        let letters: usize = jobs.iter().map(|job| job.letters().len()).sum();
        self.unswept = self.unswept.saturating_add(letters as u32);
        if self.unswept >= SWEEP_EVERY {
            self.unswept = 0;
            store::sweep(&transaction, &mut node, now)?;
        }
        store::save_node(&transaction, &before, &node)?;
        transaction.commit()?;
        Ok(())
    }

    /// Writes the log back into the file every now and then, when nobody waits for an answer.
    fn write_back(&mut self) {
        self.unwritten += 1;
        if self.unwritten >= CHECKPOINT_EVERY {
            self.unwritten = 0;
            // If it fails, so will the next transaction that needs the disk.
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }
}

/// Adds what has queued up.
fn gather(jobs: &mut Vec<Job>, queue: &Receiver<Job>) {
    let mut letters: usize = jobs.iter().map(|job| job.letters().len().max(1)).sum();
    while letters < LETTERS_MAX {
        let Ok(job) = queue.try_recv() else { break };
        letters += job.letters().len().max(1);
        jobs.push(job);
    }
}

fn run_errand(
    transaction: &Transaction<'_>,
    node: &mut NodeNote,
    errand: &Errand,
    now: NodeTime,
) -> Result<Standing, Fault> {
    let before = node.life.clone();
    let mut standing = attend(&mut node.life, errand, now);
    let Some(life) = &mut node.life else { return Ok(standing) };
    let is_other_run = before.as_ref().is_none_or(|before| before.run != life.run);
    let is_new = is_other_run || before.as_ref().is_none_or(|before| before.epoch != life.epoch);
    // Another run's times mean nothing now. An operator's new life in the same run keeps what it has.
    if is_other_run || (is_new && !matches!(errand, Errand::Init { .. })) {
        store::wipe(transaction)?;
    }
    if is_new || before.is_none_or(|before| before.floor != life.floor) {
        life.floor = life.floor.map(|floor| floor.max(Fence::new(node.reserve)));
        standing.life = Some(life.clone());
    }
    Ok(standing)
}

fn answer(
    transaction: &Transaction<'_>,
    node: &NodeNote,
    boot: &str,
    letter: &Letter,
    epoch: Epoch,
    now: NodeTime,
) -> Result<Reply, Fault> {
    let Some(life) = &node.life else { return Ok(Reply::Failed("the node is blank".into())) };
    let (key, request) = (letter.place.key.as_str(), &*letter.request);
    let voted = |vote| Ok(Reply::Voted { vote, at_micros: Some(now.wall_micros) });
    if life.run != boot && request.may_grant() {
        return voted(Vote::Refusal(Refusal::WrongEpoch));
    }
    let mut record = store::load_record(transaction, key)?;
    if let Some(note) = record.fence.as_mut().filter(|note| note.fence >= node.forgettable(now)) {
        // The floor may be far ahead of the clock. Kept for as long as a later fence could come out lower.
        note.until = note.until.max(now.life_millis);
    }
    let before = record.clone();
    let ended = if request.is_plain() { None } else { store::load_tombstone(transaction, request.attempt())? };
    record.tombstone = ended;
    let vote = apply(life, &mut record, request, epoch, now).vote;
    if let Vote::Grant { fence, .. } = vote
        && request.may_grant()
        && fence.get() >= node.sure
    {
        // Nothing has been written yet.
        return Ok(Reply::Failed(format!("fence {fence} is not below the reserve of {}: not granted", node.sure)));
    }
    if let Some(until) = record.tombstone.take().filter(|until| Some(*until) != ended) {
        store::save_tombstone(transaction, request.attempt(), until)?;
    }
    if record != before {
        store::save_record(transaction, key, &record)?;
    }
    voted(vote)
}
