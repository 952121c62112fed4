//! A thread beside those that serve callers: for reading the nodes, and for answering those who read. However much that
//! is, no lock waits behind it.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::threads;

/// One such thread. It ends with the last clone of this.
#[derive(Clone)]
pub(crate) struct Aside {
    runtime: Handle,
    _until: Arc<oneshot::Sender<()>>,
}

impl Aside {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (until, ended) = oneshot::channel();
        let runtime = threads::start(name, async {
            // Nothing is ever sent: it ends when nobody could.
            let _ = ended.await;
        })?;
        Ok(Self { runtime, _until: Arc::new(until) })
    }

    /// Runs a task for as long as the thread is there.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Runs a task until it ends, or what is returned is dropped.
    pub(crate) fn keep(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
        let mut kept = JoinSet::new();
        kept.spawn_on(task, &self.runtime);
        kept
    }

    /// What comes of the task; `None` if the thread ends before.
    ///
    /// # Cancel safety
    /// Dropping the future drops the task.
    pub(crate) async fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let mut alone = JoinSet::new();
        alone.spawn_on(task, &self.runtime);
        match alone.join_next().await? {
            Ok(done) => Some(done),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
