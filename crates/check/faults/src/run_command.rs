//! The command that `quorlock run` runs: it uses the register, and reports that it is alive.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::clock;
use crate::history::Event;
use crate::register::{Request, Versions};
use crate::worker::report_event;

/// The pause between a read and a write of the register, and the interval between two heartbeats.
const STEP: Duration = Duration::from_millis(10);
/// The turn number of a run. Each run has only one turn: its command.
pub const TURN: u32 = 1;

/// The argument of a command, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The unique number of the run.
    pub client: u32,
    /// The address of the register.
    pub register: String,
    /// How long the command works.
    pub busy_ms: u64,
    /// All commands end when this file appears.
    pub stop_file: PathBuf,
}

/// Works for the time that the job requests. Reports the start, heartbeats and the end, with the fence from `quorlock
/// run`.
///
/// For the judge, the lease lasts from the first event to the last heartbeat, because a killed command cannot report
/// its end.
///
/// # Errors
/// When `quorlock run` did not set the name and the fence, or the register or the harness has ended.
pub fn work(job: &Job) -> Result<(), Failure> {
    let name = env::var("QUORLOCK_NAME")?;
    let fence = env::var("QUORLOCK_FENCE")?.parse()?;
    let begun = clock::now();
    report_event(&Event::Granted { turn: TURN, at: begun, until: begun, fence: Some(fence) })?;
    let mut register = BufReader::new(TcpStream::connect(&job.register)?);
    register.get_ref().set_nodelay(true)?;
    let end = begun + job.busy_ms * 1_000_000;
    let mut access = |write| -> Result<Versions, Failure> {
        let request = Request { client: job.client, turn: TURN, name: name.clone(), fence: Some(fence), write };
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        register.get_mut().write_all(&line)?;
        let mut answer = String::new();
        register.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    };
    loop {
        let known = access(None)?;
        thread::sleep(STEP);
        access(Some(known))?;
        let at = clock::now();
        report_event(&Event::Extended { turn: TURN, at, until: at })?;
        if at >= end || job.stop_file.exists() {
            break;
        }
    }
    report_event(&Event::Released { turn: TURN, at: clock::now() })
}
