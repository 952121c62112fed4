//! A client of quorlock: takes turns until its input ends, and tells everything on its output.

use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use quorlock::{Client, Lease, LostError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::clock;
use crate::episode::Failure;
use crate::history::Event;
use crate::register::{Request, Versions};
use crate::task::{BACKSTEP, MAX_TTL, NODE_DEADLINE, SIGMA, Task};

/// Longer than any episode: whoever is not served by its end is starved.
const PATIENCE: Duration = Duration::from_secs(600);
/// How soon a client that found its nodes unfit tries again.
const RECONNECT: Duration = Duration::from_millis(100);
/// News of a longer validity are told in steps of at least this.
const TOLD_STEP: u64 = 50_000_000;

/// Takes turns until the input ends.
///
/// # Errors
/// When the register or the harness cannot be reached any more.
pub async fn work(task: Task) -> Result<(), Failure> {
    let (ends, mut ended) = watch::channel(false);
    thread::spawn(move || {
        // Nothing is said: the end of the input is the news.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = ends.send(true);
    });
    let Some(client) = connect(&task, &ended).await? else { return Ok(()) };
    let register = TcpStream::connect(&task.register).await?;
    register.set_nodelay(true)?;
    let dice = Rng::with_seed(task.seed);
    let mut worker = Worker { task, client, register: BufReader::new(register), dice, turn: 0 };
    while !*ended.borrow() {
        let rest = worker.below(worker.task.rest_ms);
        tokio::select! {
            biased;
            _ = ended.wait_for(|ended| *ended) => break,
            () = sleep(rest) => {}
        }
        worker.take_turn(&mut ended).await?;
    }
    // What could not be delivered lapses.
    let _ = worker.client.close(NODE_DEADLINE).await;
    Ok(())
}

/// Nodes may be unfit just now, if faults have begun already.
async fn connect(task: &Task, ended: &watch::Receiver<bool>) -> Result<Option<Client>, Failure> {
    let mut builder = Client::builder()
        .nodes(&task.urls)
        .ttl(Duration::from_millis(task.ttl_ms))
        .max_ttl(MAX_TTL)
        .sigma(SIGMA)
        .backstep(BACKSTEP)
        .node_deadline(NODE_DEADLINE)
        .label(format!("c{}", task.client));
    if task.trusting {
        builder = builder.danger_trust_restarts();
    }
    while !*ended.borrow() {
        match builder.clone().connect().await {
            Ok(client) => return Ok(Some(client)),
            Err(quorlock::ConnectError::Config(error)) => return Err(error.into()),
            Err(_) => sleep(RECONNECT).await,
        }
    }
    Ok(None)
}

struct Worker {
    task: Task,
    client: Client,
    register: BufReader<TcpStream>,
    dice: Rng,
    turn: u32,
}

impl Worker {
    fn below(&mut self, millis: u64) -> Duration {
        Duration::from_millis(self.dice.u64(..=millis))
    }

    async fn take_turn(&mut self, ended: &mut watch::Receiver<bool>) -> Result<(), Failure> {
        self.turn += 1;
        let turn = self.turn;
        let name = self.task.names[self.dice.usize(..self.task.names.len())].clone();
        let is_long = self.dice.u64(..self.task.long_one_in) == 0;
        let busy = self.below(if is_long { self.task.long_ms } else { self.task.busy_ms });
        tell(&Event::Asked { turn, name: name.clone(), at: clock::now() })?;
        let lease = match self.client.lock(&name).acquire_within(PATIENCE).await {
            Ok(lease) => lease,
            Err(error) => return tell(&Event::GaveUp { turn, at: clock::now(), why: error.to_string() }),
        };
        // The clock first: rather a moment too short than too long.
        let at = clock::now();
        let until = at + lease.validity().as_nanos() as u64;
        let fence = match lease.fence() {
            Ok(fence) => fence.get(),
            // It was over when we got to see it.
            Err(_) => return tell(&Event::Lost { turn, at }),
        };
        tell(&Event::Granted { turn, at, until, fence: Some(fence) })?;
        let mut hold = Hold { turn, name, fence, lease, until };
        let done = at + busy.as_nanos() as u64;
        while clock::now() < done && !*ended.borrow() {
            if self.step(&mut hold).await?.is_some() {
                return tell(&Event::Lost { turn, at: clock::now() });
            }
        }
        // Told first: nobody may have it before.
        tell(&Event::Released { turn, at: clock::now() })?;
        let _ = hold.lease.release().await;
        Ok(())
    }

    /// Reads the register, thinks, and writes it: if there is time for it.
    async fn step(&mut self, hold: &mut Hold) -> Result<Option<LostError>, Failure> {
        let think = self.below(self.task.step_ms);
        let margin = Duration::from_millis(self.task.margin_ms);
        let known = match hold.lease.ensure(margin) {
            Ok(()) => Some(self.access(hold, None).await?),
            Err(LostError::TooShort { .. }) => None,
            Err(lost) => return Ok(Some(lost)),
        };
        tokio::select! {
            biased;
            lost = hold.lease.lost(), if known.is_none() => return Ok(Some(lost)),
            () = sleep(think) => {}
        }
        if let Some(known) = known {
            // Not looked again whether it is still held: the register has to bear that.
            self.access(hold, Some(known)).await?;
        }
        hold.tell_validity()?;
        Ok(None)
    }

    async fn access(&mut self, hold: &Hold, write: Option<Versions>) -> Result<Versions, Failure> {
        let (client, turn, name) = (self.task.client, hold.turn, hold.name.clone());
        let request = Request { client, turn, name, fence: Some(hold.fence), write };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        self.register.write_all(&line).await?;
        let mut answer = String::new();
        self.register.read_line(&mut answer).await?;
        Ok(serde_json::from_str(&answer)?)
    }
}

struct Hold {
    turn: u32,
    name: String,
    fence: u64,
    lease: Lease,
    /// What has been told.
    until: u64,
}

impl Hold {
    fn tell_validity(&mut self) -> Result<(), Failure> {
        let at = clock::now();
        let left = self.lease.validity().as_nanos() as u64;
        let until = at + left;
        if left > 0 && until > self.until + TOLD_STEP {
            self.until = until;
            tell(&Event::Extended { turn: self.turn, at, until })?;
        }
        Ok(())
    }
}

/// One write for each line, so that it is out whatever happens to us next.
fn tell(event: &Event) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()?;
    Ok(())
}
