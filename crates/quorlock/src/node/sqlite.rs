//! An SQLite file as a node: the core's rules, one transaction at a time, for all processes of one machine.
//!
//! Votes lapse by the time since the machine started, which all its processes share, also those in other time
//! namespaces, and nobody can set. It begins anew
//! with each boot, so a new boot is a new life: its votes are void, and its fences start above a number, the reserve,
//! that was on the disk before any fence below it was granted.
//!
//! Whatever is stored says which processes stand behind it. When all of these are provably gone, it goes as well, before
//! its time: as soon as it is in somebody's way.
//!
//! A hint for another session is a row in the file. Whoever has waiters in the queue looks for it: often enough, and only if
//! others have committed anything.

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
use std::pin::Pin;
use std::sync::{Arc, mpsc};

use quorlock_core::node::{Identity, NodeTime};
use tokio::sync::oneshot;

use crate::node::probe::{Plan, Probe};
use crate::node::{BoxFuture, Companion, Inbox, Node, Question, Session, Trouble};
use crate::platform::boot::Boot;
pub(crate) use processes::Processes;
use worker::Worker;

/// Reads a node's clocks.
type Clock = Arc<dyn Fn() -> NodeTime + Send + Sync>;

/// A file that can be opened.
pub(crate) struct SqliteNode {
    title: String,
    path: PathBuf,
    processes: Processes,
    /// The id of the boot and its clock, if they are not the machine's own: for tests.
    boot: Option<(String, Clock)>,
}

impl SqliteNode {
    /// The node that is kept in this file, for a client that these processes stand behind. Nothing is opened yet.
    pub(crate) fn new(path: PathBuf, processes: Processes) -> Self {
        let title = format!("sqlite:{}", path.display());
        // A process that changes its directory must not find another file when it opens this one again.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { title, path, processes, boot: None }
    }
}

impl Node for SqliteNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        let (run, clock) = match self.boot.clone().map_or_else(this_boot, Ok) {
            Ok(boot) => boot,
            Err(trouble) => return Box::pin(std::future::ready(Err(trouble))),
        };
        let (questions, queue) = mpsc::channel();
        let (opened, opening) = oneshot::channel();
        let (path, boot, processes) = (self.path.clone(), run.clone(), self.processes.clone());
        let thread = std::thread::Builder::new().name("quorlock-sqlite".into()).spawn(move || {
            match Worker::open(path, boot, processes, clock, inbox) {
                Ok(mut worker) => {
                    // Whoever has stopped waiting has dropped the other end of the queue as well.
                    let _ = opened.send(Ok(()));
                    worker.run(&queue);
                }
                Err(trouble) => drop(opened.send(Err(trouble))),
            }
        });
        Box::pin(async move {
            thread.map_err(|error| Trouble::Unreachable(format!("no thread could be started: {error}")))?;
            opening.await.unwrap_or_else(|_| Err(ended()))?;
            Ok(Box::new(SqliteSession { identity: Identity::of_run(run), questions }) as Box<dyn Session>)
        })
    }

    fn also_alive_with(&self, companion: Companion) -> Result<bool, u32> {
        self.processes.add(companion).map(|()| true)
    }

    fn examine<'a>(&'a self, plan: &'a Plan) -> Pin<Box<dyn Future<Output = Probe> + Send + 'a>> {
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
        // A thread that is gone has reported the end.
        let _ = self.questions.send(question);
    }
}

fn this_boot() -> Result<(String, Clock), Trouble> {
    let boot = Boot::read().map_err(Trouble::Unfit)?;
    Ok((boot.id.clone(), Arc::new(move || boot.time())))
}

fn ended() -> Trouble {
    Trouble::Broken("its thread has ended".into())
}

#[cfg(test)]
mod tests;
