//! A client process. In each turn the client acquires a lock, uses the register and releases the lock. The process runs
//! until its input ends, and writes its events to stdout.

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

/// A client reports an extension only if the validity ends at least this number of nanoseconds later.
const REPORT_STEP_NANOS: u64 = 50_000_000;
/// The polling interval for a lease that is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The lock library that a client uses.
pub trait Library: Sized {
    /// A lock that this library holds.
    type HeldLock: HeldLock;

    /// Connects to the nodes of the task, retrying while too few of them can vote.
    fn connect(task: &Task) -> impl Future<Output = Result<Self, Failure>>;

    /// Waits for a lock without a limit. Returns an error only if retrying cannot help.
    fn acquire(&self, name: &str) -> impl Future<Output = Result<Self::HeldLock, Failure>>;

    /// The requests sent to servers so far, for libraries that count them.
    fn sent(&self) -> RequestCounts {
        RequestCounts::default()
    }

    /// Closes the connections.
    fn close(self) -> impl Future<Output = ()>;
}

/// Requests about the names that clients compete for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All requests, counted once for each server.
    pub requests: u64,
    /// The requests that shared a command with others.
    pub batched: u64,
}

/// A lock that is held.
pub trait HeldLock {
    /// The fence, if the library has fences.
    fn fence(&self) -> Option<u64>;

    /// The remaining validity of the lock, according to the library. Zero if the lock is no longer valid.
    fn validity(&self) -> Duration;

    /// Extends the lease if necessary, for libraries that do not extend leases by themselves. Called between two steps
    /// of the work. Returns whether the lock is still held.
    fn extend_if_needed(&mut self) -> impl Future<Output = bool>;

    /// Waits until the lock is lost, for libraries that report it.
    fn lost(&self) -> impl Future<Output = ()>;

    /// Releases the lock.
    fn release(self) -> impl Future<Output = ()>;
}

/// Takes turns until the input ends.
///
/// # Errors
/// When the register or the harness cannot be reached.
pub async fn work<L: Library>(task: Task) -> Result<(), Failure> {
    let (results_of_runs, mut ended) = watch::channel(false);
    thread::spawn(move || {
        // The harness sends nothing: it closes the input to end this client.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = results_of_runs.send(true);
    });
    let library = tokio::select! {
        library = L::connect(&task) => library?,
        _ = ended.wait_for(|ended| *ended) => return Ok(()),
    };
    let register = TcpStream::connect(&task.register).await?;
    register.set_nodelay(true)?;
    let rng = Rng::with_seed(task.seed);
    let register = BufReader::new(register);
    let mut worker = Worker { task, library, register, rng, turn: 0, reported: RequestCounts::default() };
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
    /// The counts that were already reported.
    reported: RequestCounts,
}

impl<L: Library> Worker<L> {
    fn random_up_to(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.rng.u64(..=millis))
    }

    fn report_requests(&mut self) -> Result<(), Failure> {
        let (sent, reported) = (self.library.sent(), self.reported);
        self.reported = sent;
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
        // The clock is read first, so that the recorded validity may be a moment too short, but never too long.
        let at = clock::now();
        let until = at + held.validity().as_nanos() as u64;
        let mut hold = HeldTurn { turn, name, held, until };
        if until == at {
            // The lease had ended before we saw it.
            report_event(&Event::Lost { turn, at })?;
            return self.watch_ended_lease(&hold, ended).await;
        }
        report_event(&Event::Granted { turn, at, until, fence: hold.held.fence() })?;
        let done = at + busy.as_nanos() as u64;
        while clock::now() < done && !*ended.borrow() {
            let before = clock::now();
            if !hold.held.extend_if_needed().await {
                return report_event(&Event::Lost { turn, at: before });
            }
            if !self.step(&mut hold).await? {
                report_event(&Event::Lost { turn, at: clock::now() })?;
                return self.watch_ended_lease(&hold, ended).await;
            }
        }
        // Reported before the release, because another client may get the lock at once.
        report_event(&Event::Released { turn, at: clock::now() })?;
        hold.held.release().await;
        Ok(())
    }

    /// Polls a lease that is over for another ttl, and reports it if it becomes valid again.
    async fn watch_ended_lease(
        &self,
        hold: &HeldTurn<L::HeldLock>,
        ended: &watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let until = clock::now() + Duration::from_millis(self.task.ttl_ms).as_nanos() as u64;
        while clock::now() < until && !*ended.borrow() {
            sleep(POLL_INTERVAL).await;
            if !hold.held.validity().is_zero() {
                return report_event(&Event::Revived { turn: hold.turn, at: clock::now() });
            }
        }
        Ok(())
    }

    /// Reads the register, pauses, and writes it back if there is time. Returns whether the lease is still held.
    async fn step(&mut self, hold: &mut HeldTurn<L::HeldLock>) -> Result<bool, Failure> {
        let pause = self.random_up_to(self.task.step_ms);
        let left = hold.held.validity();
        if left.is_zero() {
            return Ok(false);
        }
        let has_time = left >= Duration::from_millis(self.task.margin_ms);
        let known = if has_time { Some(self.access(hold, None).await?) } else { None };
        tokio::select! {
            biased;
            () = hold.held.lost(), if !has_time => return Ok(false),
            () = sleep(pause) => {}
        }
        if let Some(known) = known {
            // The lease may have ended during the pause. The register then has to reject the write.
            self.access(hold, Some(known)).await?;
        }
        hold.report_validity()?;
        Ok(true)
    }

    async fn access(&mut self, hold: &HeldTurn<L::HeldLock>, write: Option<Versions>) -> Result<Versions, Failure> {
        let (client, turn, name) = (self.task.client, hold.turn, hold.name.clone());
        let request = Request { client, turn, name, fence: hold.held.fence(), write };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        self.register.write_all(&line).await?;
        let mut answer = String::new();
        self.register.read_line(&mut answer).await?;
        Ok(serde_json::from_str(&answer)?)
    }
}

struct HeldTurn<H> {
    turn: u32,
    name: String,
    held: H,
    /// The validity that was last reported.
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
