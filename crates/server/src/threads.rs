//! The threads that talk with callers. A connection stays with one of them: no other is woken to look for its work.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::connection::{Guest, House};
use crate::linger::{Linger, Spare};

/// All threads. Dropping them ends every connection.
pub(crate) struct Threads(Vec<Thread>);

struct Thread {
    guests: mpsc::UnboundedSender<Guest>,
    /// How many connections it has.
    open: Arc<AtomicUsize>,
    ended: oneshot::Receiver<()>,
}

impl Threads {
    /// So many. Where the runtime that this is called on is a single thread, that is the first of them: the nodes' answers
    /// arrive there, and a caller that is alone is served without waking anybody else.
    pub(crate) fn start(house: &House, count: usize, linger: bool) -> io::Result<Self> {
        let is_one_of_them = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        let spare = if linger { Spare::beside_one_of(cores()) } else { Spare::none() };
        let started = (0..count.max(1)).map(|at| {
            let (thread, attending) = Thread::new(house.clone(), Linger::new(Arc::clone(&spare)));
            if at == 0 && is_one_of_them {
                tokio::spawn(attending);
            } else {
                start("connections", attending)?;
            }
            Ok(thread)
        });
        started.collect::<io::Result<_>>().map(Self)
    }

    /// Has the guest served, by whoever has the fewest.
    pub(crate) fn welcome(&self, guest: Guest) {
        if let Some(thread) = self.0.iter().min_by_key(|thread| thread.open.load(Ordering::Relaxed)) {
            thread.open.fetch_add(1, Ordering::Relaxed);
            // A thread ends after those who send to it.
            let _ = thread.guests.send(guest);
        }
    }

    /// Lets nobody in any more, and waits until those who are there have ended.
    pub(crate) async fn close(self) {
        let ended: Vec<_> = self.0.into_iter().map(|thread| thread.ended).collect();
        for ended in ended {
            // Whether it says so or is just gone: it has ended.
            let _ = ended.await;
        }
    }
}

impl Thread {
    fn new(house: House, linger: Arc<Linger>) -> (Self, impl Future<Output = ()> + Send) {
        let (guests, coming) = mpsc::unbounded_channel();
        let open = Arc::new(AtomicUsize::new(0));
        let (end, ended) = oneshot::channel();
        let counted = Arc::clone(&open);
        let attending = async move {
            attend(house, linger, coming, &counted).await;
            let _ = end.send(());
        };
        (Self { guests, open, ended }, attending)
    }
}

/// Serves whoever comes, until nobody can come any more.
async fn attend(house: House, linger: Arc<Linger>, mut coming: mpsc::UnboundedReceiver<Guest>, open: &AtomicUsize) {
    let (stopped, drain) = (house.stopped.clone(), house.limits.drain);
    let mut staying = JoinSet::new();
    staying.spawn(Arc::clone(&linger).stay());
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            guest = coming.recv() => match guest {
                Some(guest) => drop(served.spawn(house.clone().serve(guest, Arc::clone(&linger)))),
                None => break,
            },
            Some(_) = served.join_next() => drop(open.fetch_sub(1, Ordering::Relaxed)),
        }
    }
    if *stopped.borrow() {
        let everyone = async { while served.join_next().await.is_some() {} };
        // Whoever has not read its answer by now will not.
        let _ = tokio::time::timeout(drain, everyone).await;
    }
    served.shutdown().await;
}

/// How many cores this process may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// A thread with a runtime of its own, for as long as the future takes.
pub(crate) fn start(name: &str, until: impl Future<Output = ()> + Send + 'static) -> io::Result<Handle> {
    let (tell, told) = std::sync::mpsc::channel();
    let live = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            // Whoever asked for the thread waits for this.
            let _ = tell.send(Ok(runtime.handle().clone()));
            runtime.block_on(until);
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    thread::Builder::new().name(name.into()).spawn(live)?;
    told.recv().map_err(io::Error::other)?
}
