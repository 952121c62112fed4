//! A client: takes turns until its input ends, and tells everything on its output.

#[cfg(feature = "harness")]
mod own;

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
pub use own::{COMPANY, Own};

/// News of a longer validity are told in steps of at least this.
const TOLD_STEP: u64 = 50_000_000;
/// The pause between two looks at a lease that is over.
const LOOK: Duration = Duration::from_millis(20);

/// A lock library, as far as a client needs it.
pub trait Library: Sized {
    /// A lease.
    type Held: Held;

    /// Connects to the nodes of the task, and tries again as long as they are unfit.
    fn connect(task: &Task) -> impl Future<Output = Result<Self, Failure>>;

    /// Waits for a lock as long as it takes. An error is one that waiting does not mend.
    fn acquire(&self, name: &str) -> impl Future<Output = Result<Self::Held, Failure>>;

    /// What it has sent to servers so far, for libraries that can tell.
    fn sent(&self) -> Sent {
        Sent::default()
    }

    /// Says goodbye.
    fn close(self) -> impl Future<Output = ()>;
}

/// Requests about the names that clients compete for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// All of them, each server counted.
    pub requests: u64,
    /// Those that went to a server in one command with others.
    pub together: u64,
}

/// What a library gives to whoever has a lock.
pub trait Held {
    /// The fence, if it has any.
    fn fence(&self) -> Option<u64>;

    /// How long it is surely held, by what the library says; zero when it is over.
    fn validity(&self) -> Duration;

    /// Called between two steps of the work: the time to extend it, for libraries that do not do so by themselves.
    /// Whether it is still held.
    fn keep(&mut self) -> impl Future<Output = bool>;

    /// Waits until it is lost, for libraries that tell.
    fn lost(&self) -> impl Future<Output = ()>;

    /// Gives it back.
    fn release(self) -> impl Future<Output = ()>;
}

/// Takes turns until the input ends.
///
/// # Errors
/// When the register or the harness cannot be reached any more.
pub async fn work<L: Library>(task: Task) -> Result<(), Failure> {
    let (ends, mut ended) = watch::channel(false);
    thread::spawn(move || {
        // Nothing is said: the end of the input is the news.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = ends.send(true);
    });
    let library = tokio::select! {
        library = L::connect(&task) => library?,
        _ = ended.wait_for(|ended| *ended) => return Ok(()),
    };
    let register = TcpStream::connect(&task.register).await?;
    register.set_nodelay(true)?;
    let dice = Rng::with_seed(task.seed);
    let register = BufReader::new(register);
    let mut worker = Worker { task, library, register, dice, turn: 0, told: Sent::default() };
    while !*ended.borrow() {
        let rest = worker.below(worker.task.rest_ms);
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => break,
            () = sleep(rest) => {}
        }
        worker.take_turn(&ended).await?;
        worker.tell_sent()?;
    }
    worker.library.close().await;
    Ok(())
}

struct Worker<L> {
    task: Task,
    library: L,
    register: BufReader<TcpStream>,
    dice: Rng,
    turn: u32,
    /// What has been told of what was sent.
    told: Sent,
}

impl<L: Library> Worker<L> {
    fn below(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.dice.u64(..=millis))
    }

    fn tell_sent(&mut self) -> Result<(), Failure> {
        let (sent, told) = (self.library.sent(), self.told);
        self.told = sent;
        let (requests, together) = (sent.requests - told.requests, sent.together - told.together);
        if requests > 0 { tell(&Event::Sent { turn: self.turn, requests, together }) } else { Ok(()) }
    }

    async fn take_turn(&mut self, ended: &watch::Receiver<bool>) -> Result<(), Failure> {
        self.turn += 1;
        let turn = self.turn;
        let name = self.task.names[self.dice.usize(..self.task.names.len())].clone();
        let is_long = self.dice.u64(..self.task.long_one_in) == 0;
        let busy = self.below(if is_long { self.task.long_ms } else { self.task.busy_ms });
        tell(&Event::Asked { turn, name: name.clone(), at: clock::now() })?;
        let held = match self.library.acquire(&name).await {
            Ok(held) => held,
            Err(error) => return tell(&Event::GaveUp { turn, at: clock::now(), why: error.to_string() }),
        };
        // The clock first: rather a moment too short than too long.
        let at = clock::now();
        let until = at + held.validity().as_nanos() as u64;
        let mut hold = Hold { turn, name, held, until };
        if until == at {
            // It was over when we got to see it.
            tell(&Event::Lost { turn, at })?;
            return self.watch(&hold, ended).await;
        }
        tell(&Event::Granted { turn, at, until, fence: hold.held.fence() })?;
        let done = at + busy.as_nanos() as u64;
        while clock::now() < done && !*ended.borrow() {
            let before = clock::now();
            if !hold.held.keep().await {
                return tell(&Event::Lost { turn, at: before });
            }
            if !self.step(&mut hold).await? {
                tell(&Event::Lost { turn, at: clock::now() })?;
                return self.watch(&hold, ended).await;
            }
        }
        // Told first: nobody may have it before.
        tell(&Event::Released { turn, at: clock::now() })?;
        hold.held.release().await;
        Ok(())
    }

    /// Looks at a lease that was seen to be over, for as long as one lasts: nothing may revive it.
    async fn watch(&self, hold: &Hold<L::Held>, ended: &watch::Receiver<bool>) -> Result<(), Failure> {
        let until = clock::now() + Duration::from_millis(self.task.ttl_ms).as_nanos() as u64;
        while clock::now() < until && !*ended.borrow() {
            sleep(LOOK).await;
            if !hold.held.validity().is_zero() {
                return tell(&Event::Revived { turn: hold.turn, at: clock::now() });
            }
        }
        Ok(())
    }

    /// Reads the register, thinks, and writes it: if there is time for it. Whether the lease is still held.
    async fn step(&mut self, hold: &mut Hold<L::Held>) -> Result<bool, Failure> {
        let think = self.below(self.task.step_ms);
        let left = hold.held.validity();
        if left.is_zero() {
            return Ok(false);
        }
        let has_time = left >= Duration::from_millis(self.task.margin_ms);
        let known = if has_time { Some(self.access(hold, None).await?) } else { None };
        tokio::select! {
            biased;
            () = hold.held.lost(), if !has_time => return Ok(false),
            () = sleep(think) => {}
        }
        if let Some(known) = known {
            // Not looked again whether it is still held: the register has to bear that.
            self.access(hold, Some(known)).await?;
        }
        hold.tell_validity()?;
        Ok(true)
    }

    async fn access(&mut self, hold: &Hold<L::Held>, write: Option<Versions>) -> Result<Versions, Failure> {
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

struct Hold<H> {
    turn: u32,
    name: String,
    held: H,
    /// What has been told.
    until: u64,
}

impl<H: Held> Hold<H> {
    fn tell_validity(&mut self) -> Result<(), Failure> {
        let at = clock::now();
        let left = self.held.validity().as_nanos() as u64;
        let until = at + left;
        if left > 0 && until > self.until + TOLD_STEP {
            self.until = until;
            tell(&Event::Extended { turn: self.turn, at, until })?;
        }
        Ok(())
    }
}

/// Writes an event to stdout, at once and as one line, so that it is out before a signal can end the process.
pub(crate) fn tell(event: &Event) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()?;
    Ok(())
}
