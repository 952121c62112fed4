//! Contenders that run in their own processes (*workers*). A worker gets its task as an argument, and prints a line when
//! it is ready. Each line on its stdin is the length of a turn in milliseconds. For each line, the worker runs cycles for
//! this time and prints one line of figures.

pub(crate) mod flock;
pub(crate) mod floor;
pub(crate) mod http_load;
pub(crate) mod leases;
pub(crate) mod ours;
pub(crate) mod parallel_workers;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::{Contender, Figures};
use crate::recording::Recording;
use crate::{Failure, Outcome};

/// The task of a worker, as JSON for workers in any language.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The URL of each node.
    pub(crate) nodes: Vec<String>,
    pub(crate) callers: usize,
    pub(crate) ttl_ms: u64,
    /// The number of the first caller. Callers lock names with their numbers, so the processes of one contender get
    /// different numbers.
    #[serde(default)]
    pub(crate) first_caller: usize,
    /// Whether locks have no fence.
    pub(crate) plain: bool,
    /// Whether the runtime has one thread rather than two.
    #[serde(default)]
    pub(crate) one_thread: bool,
    /// For each node, the commands of our library that were recorded there. The floor, a minimal client, sends them.
    #[serde(default)]
    pub(crate) recordings: Vec<Recording>,
}

/// How long a worker may take for its start or for a turn.
const REPLY_TIMEOUT: Duration = Duration::from_secs(240);
/// How long a worker may take to end before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker process, and the length of its turns.
pub(crate) struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    /// The lines of the worker's output.
    lines: Receiver<std::io::Result<String>>,
    turn_length: Duration,
}

impl Worker {
    /// Starts the worker, and waits until it is ready.
    pub(crate) fn start(mut command: Command, task: &Task, turn_length: Duration) -> Result<Self, Failure> {
        command.arg(serde_json::to_string(task)?).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let stdin = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("the worker has no stdout")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line)));
        let mut worker = Self { child, stdin, lines, turn_length };
        match worker.read_line()?.trim() {
            "ready" => Ok(worker),
            other => Err(format!("the worker is not ready: {other:?}").into()),
        }
    }

    /// Starts this program as a worker of this kind.
    pub(crate) fn of_this_program(kind: &str, task: &Task, turn_length: Duration) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", kind]);
        Self::start(command, task, turn_length)
    }

    fn read_line(&mut self) -> Result<String, Failure> {
        match self.lines.recv_timeout(REPLY_TIMEOUT) {
            Ok(line) => Ok(line?),
            Err(RecvTimeoutError::Timeout) => Err(format!("a worker did not reply within {REPLY_TIMEOUT:?}").into()),
            Err(RecvTimeoutError::Disconnected) => Err("a worker ended early".into()),
        }
    }
}

impl Contender for Worker {
    fn turn(&mut self) -> Result<Figures, Failure> {
        self.start_turn()?;
        self.read_figures()
    }
}

impl Worker {
    /// Starts a turn.
    fn start_turn(&mut self) -> Outcome {
        let stdin = self.stdin.as_mut().ok_or("the worker has no stdin")?;
        writeln!(stdin, "{}", self.turn_length.as_millis())?;
        Ok(stdin.flush()?)
    }

    fn read_figures(&mut self) -> Result<Figures, Failure> {
        Ok(serde_json::from_str(&self.read_line()?)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Closing stdin ends the worker. A worker that hangs is killed.
        drop(self.stdin.take());
        let _ = self.lines.recv_timeout(EXIT_TIMEOUT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The loop of a worker process: prints that it is ready, and then, for every line of stdin, runs a turn and prints the
/// figures.
pub(crate) fn run_turns(mut turn: impl FnMut(Duration) -> Result<Figures, Failure>) -> Outcome {
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
