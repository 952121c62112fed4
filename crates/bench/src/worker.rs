//! Contenders in processes of their own. A worker gets its task as an argument and prints a line when it is ready. For
//! every line that it reads, it takes a turn of that many milliseconds and prints one line of figures.

pub(crate) mod crew;
pub(crate) mod flock;
pub(crate) mod floor;
pub(crate) mod leases;
pub(crate) mod load;
pub(crate) mod own;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::{Contender, Figures};
use crate::record::Recording;
use crate::{Failure, Outcome};

/// The task of a worker, as JSON for workers in any language.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The URL of each node.
    pub(crate) nodes: Vec<String>,
    pub(crate) callers: usize,
    pub(crate) ttl_ms: u64,
    /// The number of the first caller; unique among the processes.
    #[serde(default)]
    pub(crate) first: usize,
    /// Whether locks have no fence.
    pub(crate) plain: bool,
    /// Whether the runtime has one thread rather than two.
    #[serde(default)]
    pub(crate) one_thread: bool,
    /// The commands that the floor sends to each node, recorded from ours.
    #[serde(default)]
    pub(crate) recordings: Vec<Recording>,
}

/// Time limit for getting ready and for a turn, so that a worker that hangs does not stop the run.
const PATIENCE: Duration = Duration::from_secs(240);
/// Time limit for ending.
const FAREWELL: Duration = Duration::from_secs(5);

/// A worker process, and the length of its turns.
pub(crate) struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<std::io::Result<String>>,
    length: Duration,
}

impl Worker {
    /// Starts the worker, and waits until it is ready.
    pub(crate) fn start(mut command: Command, task: &Task, length: Duration) -> Result<Self, Failure> {
        command.arg(serde_json::to_string(task)?).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let orders = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("the worker has no stdout")?);
        let (told, answers) = channel();
        std::thread::spawn(move || output.lines().try_for_each(|line| told.send(line)));
        let mut worker = Self { child, orders, answers, length };
        match worker.hear()?.trim() {
            "ready" => Ok(worker),
            other => Err(format!("the worker is not ready: {other:?}").into()),
        }
    }

    /// Starts this program as a worker of this kind.
    pub(crate) fn of_this_program(kind: &str, task: &Task, length: Duration) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", kind]);
        Self::start(command, task, length)
    }

    fn hear(&mut self) -> Result<String, Failure> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line?),
            Err(RecvTimeoutError::Timeout) => Err("a worker did not reply in time".into()),
            Err(RecvTimeoutError::Disconnected) => Err("a worker ended early".into()),
        }
    }
}

impl Contender for Worker {
    fn turn(&mut self) -> Result<Figures, Failure> {
        self.order()?;
        self.answer()
    }
}

impl Worker {
    /// Starts a turn.
    fn order(&mut self) -> Outcome {
        let orders = self.orders.as_mut().ok_or("the worker has no stdin")?;
        writeln!(orders, "{}", self.length.as_millis())?;
        Ok(orders.flush()?)
    }

    fn answer(&mut self) -> Result<Figures, Failure> {
        Ok(serde_json::from_str(&self.hear()?)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing stdin ends the worker. A worker that hangs is killed, because its servers must end too.
        drop(self.orders.take());
        let _ = self.answers.recv_timeout(FAREWELL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The worker's side: reports that it is ready, and answers every line with the figures of a turn.
pub(crate) fn serve(mut turn: impl FnMut(Duration) -> Result<Figures, Failure>) -> Outcome {
    let (input, mut output) = (std::io::stdin().lock(), std::io::stdout());
    writeln!(output, "ready")?;
    output.flush()?;
    for line in input.lines() {
        let figures = turn(Duration::from_millis(line?.trim().parse()?))?;
        writeln!(output, "{}", serde_json::to_string(&figures)?)?;
        output.flush()?;
    }
    Ok(())
}
