//! The thread on which a blocking client's connections live, and the waiting of its callers.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::Client;
use crate::cluster::Cluster;

/// A runtime on a thread of its own. Dropped, it lives on until what the client owes is delivered or lapsed.
pub(super) struct Background {
    handle: Handle,
    /// Told whose links to wait for; hung up when the last client is gone.
    charge: mpsc::Sender<Arc<Cluster>>,
    _stop: oneshot::Sender<()>,
}

impl Background {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system has the means for a runtime");
        let handle = runtime.handle().clone();
        let (charge, charges) = mpsc::channel::<Arc<Cluster>>();
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async {
                let _ = stopped.await;
                for cluster in charges.try_iter() {
                    cluster.finished().await;
                }
            });
        };
        std::thread::Builder::new().name("quorlock".into()).spawn(work).expect("the system has a thread to give");
        Self { handle, charge, _stop: stop }
    }

    /// Lives until this client's links have ended.
    pub(super) fn look_after(&self, client: &Client) {
        // The thread is there for as long as we are.
        let _ = self.charge.send(Arc::clone(client.cluster()));
    }

    /// Runs a future on the thread, for those that need the runtime's own timers.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let task = self.handle.spawn(work);
        match wait(task) {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => unreachable!("nobody cancels this task: {error}"),
        }
    }

    /// Waits on this thread for a future that needs the runtime's own timers and cannot be detached.
    pub(super) fn wait_with_timers<T>(&self, future: impl Future<Output = T>) -> T {
        let _timers = self.handle.enter();
        wait(future)
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}

/// Waits for a future on this thread.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Parked(Thread);

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Parked(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
