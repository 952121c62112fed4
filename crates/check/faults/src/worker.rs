//! A client process. In each turn the client acquires a lock, reads and writes the registers, and releases the lock. The
//! process runs until its stdin ends, and writes its events to stdout.

#[cfg(feature = "harness")]
mod quorlock_library;

use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::Failure;
use crate::clock;
use crate::history::Event;
use crate::register::{Request, Versions};
use crate::task::Task;

#[cfg(feature = "harness")]
pub use quorlock_library::{PRIVATE_NAMES, QuorlockLibrary};

/// A client reports a new end of the validity only if it is at least this number of nanoseconds after the reported one.
const REPORT_STEP_NANOS: u64 = 50_000_000;
/// The interval at which a client polls a lease that has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The lock library that a client uses.
pub trait Library: Sized {
    /// A lock that this library holds.
    type HeldLock: HeldLock;

    /// Connects to the nodes of the task. Retries while too few nodes can vote.
    fn connect(task: &Task) -> impl Future<Output = Result<Self, Failure>>;

    /// Acquires a lock. Waits without a time limit. Returns an error only if a retry cannot help.
    fn acquire(&self, name: &str) -> impl Future<Output = Result<Self::HeldLock, Failure>>;

    /// The requests sent to servers so far. Libraries that do not count them return 0.
    fn request_counts(&self) -> RequestCounts {
        RequestCounts::default()
    }

    /// Closes the connections.
    fn close(self) -> impl Future<Output = ()>;
}

/// Counts of the requests for names that clients compete for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests, counted once for each server.
    pub requests: u64,
    /// The requests that shared a command with other requests.
    pub batched: u64,
}

/// A lock that is held.
pub trait HeldLock {
    /// The fence, if the library has fences.
    fn fence(&self) -> Option<u64>;

    /// The remaining validity of the lock, according to the library. Zero if the lock is no longer valid.
    fn validity(&self) -> Duration;

    /// Extends the lease if necessary. Libraries that renew leases themselves do nothing. Called between two steps of the
    /// work. Returns whether the lock is still held.
    fn extend_if_needed(&mut self) -> impl Future<Output = bool>;

    /// Waits until the library reports that the lock is lost. Libraries that do not report it wait forever.
    fn lost(&self) -> impl Future<Output = ()>;

    /// Releases the lock.
    fn release(self) -> impl Future<Output = ()>;
}

/// Takes turns until stdin ends.
///
/// # Errors
/// When the server of the registers or the harness cannot be reached.
pub async fn work<L: Library>(task: Task) -> Result<(), Failure> {
    let (end_sender, mut ended) = watch::channel(false);
    thread::spawn(move || {
        // The harness writes nothing to stdin. It closes stdin to end this client.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = end_sender.send(true);
    });
    let library = tokio::select! {
        library = L::connect(&task) => library?,
        _ = ended.wait_for(|ended| *ended) => return Ok(()),
    };
    let register = TcpStream::connect(&task.register).await?;
    register.set_nodelay(true)?;
    let rng = Rng::with_seed(task.seed);
    let register = BufReader::new(register);
    let mut worker = Worker { task, library, register, rng, turn: 0, reported_requests: RequestCounts::default() };
    while !*ended.borrow() {
        let rest = worker.random_up_to(worker.task.rest_ms);
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => break,
            () = sleep(rest) => {}
        }
        worker.take_turn(&ended).await?;
        worker.report_requests()?;
    }
    worker.library.close().await;
    Ok(())
}

struct Worker<L> {
    task: Task,
    library: L,
    register: BufReader<TcpStream>,
    rng: Rng,
    turn: u32,
    /// The counts at the last report.
    reported_requests: RequestCounts,
}

impl<L: Library> Worker<L> {
    fn random_up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.rng.u64(..=millis))
    }

    fn report_requests(&mut self) -> Result<(), Failure> {
        let (sent, reported) = (self.library.request_counts(), self.reported_requests);
        self.reported_requests = sent;
        let (requests, batched) = (sent.requests - reported.requests, sent.batched - reported.batched);
        if requests > 0 { report_event(&Event::Sent { turn: self.turn, requests, batched }) } else { Ok(()) }
    }

    async fn take_turn(&mut self, ended: &watch::Receiver<bool>) -> Result<(), Failure> {
        self.turn += 1;
        let turn = self.turn;
        let name = self.task.names[self.rng.usize(..self.task.names.len())].clone();
        let is_long = self.rng.u64(..self.task.long_one_in) == 0;
        let busy = self.random_up_to(if is_long { self.task.long_ms } else { self.task.busy_ms });
        report_event(&Event::Asked { turn, name: name.clone(), at: clock::now() })?;
        let held = match self.library.acquire(&name).await {
            Ok(held) => held,
            Err(error) => return report_event(&Event::GaveUp { turn, at: clock::now(), why: error.to_string() }),
        };
        // The clock is read before the validity, so that the reported end may be too early, but never too late.
        let at = clock::now();
        let until = at + held.validity().as_nanos() as u64;
        let mut held_turn = HeldTurn { turn, name, held, until };
        if until == at {
            // The lease ended before the client saw it.
            report_event(&Event::Lost { turn, at })?;
            return self.watch_ended_lease(&held_turn, ended).await;
        }
        report_event(&Event::Granted { turn, at, until, fence: held_turn.held.fence() })?;
        let work_until = at + busy.as_nanos() as u64;
        while clock::now() < work_until && !*ended.borrow() {
            let lost_at = clock::now();
            if !held_turn.held.extend_if_needed().await {
                return report_event(&Event::Lost { turn, at: lost_at });
            }
            if !self.step(&mut held_turn).await? {
                report_event(&Event::Lost { turn, at: clock::now() })?;
                return self.watch_ended_lease(&held_turn, ended).await;
            }
        }
        // Reported before the release, because another client may get the lock at once.
        report_event(&Event::Released { turn, at: clock::now() })?;
        held_turn.held.release().await;
        Ok(())
    }

    /// Polls a lease that has ended, for another ttl. Reports if the lease becomes valid again.
    async fn watch_ended_lease(
        &self,
        held_turn: &HeldTurn<L::HeldLock>,
        ended: &watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let watch_until = clock::now() + Duration::from_millis(self.task.ttl_ms).as_nanos() as u64;
        while clock::now() < watch_until && !*ended.borrow() {
            sleep(POLL_INTERVAL).await;
            if !held_turn.held.validity().is_zero() {
                return report_event(&Event::Revived { turn: held_turn.turn, at: clock::now() });
            }
        }
        Ok(())
    }

    /// Reads the registers, pauses, and writes them back, if the lease is valid for long enough. Returns whether the lease
    /// is still held.
    async fn step(&mut self, held_turn: &mut HeldTurn<L::HeldLock>) -> Result<bool, Failure> {
        let pause = self.random_up_to(self.task.step_ms);
        let left = held_turn.held.validity();
        if left.is_zero() {
            return Ok(false);
        }
        let has_time = left >= Duration::from_millis(self.task.margin_ms);
        let versions_read = if has_time { Some(self.access(held_turn, None).await?) } else { None };
        tokio::select! {
            biased;
            () = held_turn.held.lost(), if !has_time => return Ok(false),
            () = sleep(pause) => {}
        }
        if let Some(versions_read) = versions_read {
            // The lease may have ended during the pause. The fenced register then has to refuse the write.
            self.access(held_turn, Some(versions_read)).await?;
        }
        held_turn.report_validity()?;
        Ok(true)
    }

    async fn access(
        &mut self,
        held_turn: &HeldTurn<L::HeldLock>,
        write: Option<Versions>,
    ) -> Result<Versions, Failure> {
        let (client, turn, name) = (self.task.client, held_turn.turn, held_turn.name.clone());
        let request = Request { client, turn, name, fence: held_turn.held.fence(), write };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        self.register.write_all(&line).await?;
        let mut reply = String::new();
        self.register.read_line(&mut reply).await?;
        Ok(serde_json::from_str(&reply)?)
    }
}

struct HeldTurn<H> {
    turn: u32,
    name: String,
    held: H,
    /// The end of the validity that was last reported.
    until: u64,
}

impl<H: HeldLock> HeldTurn<H> {
    fn report_validity(&mut self) -> Result<(), Failure> {
        let at = clock::now();
        let left = self.held.validity().as_nanos() as u64;
        let until = at + left;
        if left > 0 && until > self.until + REPORT_STEP_NANOS {
            self.until = until;
            report_event(&Event::Extended { turn: self.turn, at, until })?;
        }
        Ok(())
    }
}

/// Writes an event to stdout in one write, so that a signal cannot lose or split it.
pub(crate) fn report_event(event: &Event) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()?;
    Ok(())
}
