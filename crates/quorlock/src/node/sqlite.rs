//! A node in an SQLite file, shared by all processes of one machine. The node applies the rules of quorlock-core within
//! transactions.
//!
//! The expiry of a vote is measured by the clock that counts the time since boot. All processes of the machine share this
//! clock, even across time namespaces, and nobody can set it. The clock restarts at each boot, so each boot starts a new incarnation (a new life of the
//! node's memory), in which earlier votes are void. Before the node grants fences up to some number, it
//! syncs that number, the *reserve*, to disk. So the new incarnation grants only fences above the reserve.
//!
//! Each stored vote and queue position lists the processes that keep it alive. If all these processes are provably dead
//! and the row blocks a request, the node removes the row before its ttl ends.
//!
//! A hint for another session is a row in the file. A session with queued waiters checks regularly whether another
//! connection has committed, and only then looks for such rows.

mod column;
mod database;
mod dead;
mod fault;
mod file;
mod history;
mod listener;
mod probe;
mod processes;
mod record;
mod reserve;
mod store;
mod worker;

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use futures_util::future::BoxFuture;
use quorlock_core::node::{Identity, NodeTime};
use tokio::sync::oneshot;

use crate::node::probe::{Plan, Probe};
use crate::node::{Companion, Inbox, Node, Question, Session, Trouble};
use crate::platform::boot::Boot;
pub(crate) use processes::Processes;
use worker::Worker;

/// Reads a node's clocks.
type Clock = Arc<dyn Fn() -> NodeTime + Send + Sync>;

/// A node in an SQLite file.
pub(crate) struct SqliteNode {
    title: String,
    path: PathBuf,
    processes: Processes,
    /// A boot id and a clock that replace those of the machine, for tests.
    boot: Option<(String, Clock)>,
}

impl SqliteNode {
    /// Creates a node for the file at `path`, but does not open the file yet. `processes` keep this client's leases
    /// alive.
    pub(crate) fn new(path: PathBuf, processes: Processes) -> Self {
        let title = format!("sqlite:{}", path.display());
        // After a change of the working directory, the process must still reopen the same file.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { title, path, processes, boot: None }
    }
}

impl Node for SqliteNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<'static, Result<Box<dyn Session>, Trouble>> {
        let (boot_id, clock) = match self.boot.clone().map_or_else(this_boot, Ok) {
            Ok(boot) => boot,
            Err(trouble) => return Box::pin(std::future::ready(Err(trouble))),
        };
        let (question_sender, question_receiver) = mpsc::channel();
        let (opened, opening) = oneshot::channel();
        let (path, boot, processes) = (self.path.clone(), boot_id.clone(), self.processes.clone());
        let thread = std::thread::Builder::new().name("quorlock-sqlite".into()).spawn(move || {
            match Worker::open(path, boot, processes, clock, inbox) {
                Ok(mut worker) => {
                    // If the caller has stopped waiting, it has also dropped `question_sender`, so the
                    // worker ends.
                    let _ = opened.send(Ok(()));
                    worker.run(&question_receiver);
                }
                Err(trouble) => drop(opened.send(Err(trouble))),
            }
        });
        Box::pin(async move {
            thread.map_err(|error| Trouble::Unreachable(format!("cannot start a thread: {error}")))?;
            let ended = |_| Err(Trouble::Broken("the thread of this node has ended".into()));
            opening.await.unwrap_or_else(ended)?;
            Ok(Box::new(SqliteSession { identity: Identity::of_run(boot_id), questions: question_sender })
                as Box<dyn Session>)
        })
    }

    fn add_holder_process(&self, companion: Companion) -> Result<bool, u32> {
        self.processes.add(companion).map(|()| true)
    }

    fn examine<'a>(&'a self, plan: &'a Plan) -> BoxFuture<'a, Probe> {
        Box::pin(probe::examine(self, plan))
    }
}

struct SqliteSession {
    identity: Identity,
    questions: mpsc::Sender<Question>,
}

impl Session for SqliteSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        // If the worker thread has ended, it has already reported the end of the session.
        let _ = self.questions.send(question);
    }
}

/// Returns the boot id and the clock of this machine.
fn this_boot() -> Result<(String, Clock), Trouble> {
    let boot = Boot::read().map_err(Trouble::Unfit)?;
    Ok((boot.id.clone(), Arc::new(move || boot.time())))
}

#[cfg(test)]
mod tests;
