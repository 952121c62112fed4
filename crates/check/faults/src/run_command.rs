//! The command that `quorlock run` runs. It reads and writes the registers, and reports again and again that it works.

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

/// The pause between a read and a write of the registers. Each read and write is one step.
const STEP: Duration = Duration::from_millis(10);
/// The number of the only turn of a run.
pub const TURN: u32 = 1;

/// The argument of a command, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The number of the run, unique in an episode.
    pub client: u32,
    /// The address of the server of the registers.
    pub register: String,
    /// How long the command works.
    pub busy_ms: u64,
    /// When this file exists, the command ends early.
    pub stop_file: PathBuf,
}

/// Works for the time that the job requests. Reports its start with the fence from `quorlock run`, each step, and its end.
///
/// A killed command cannot report its end. So each event states that the lease is valid only until now, and for the judge
/// the lease lasts from the first to the last step.
///
/// # Errors
/// When `quorlock run` did not set the name and the fence, or when the harness has ended.
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
        let mut reply = String::new();
        register.read_line(&mut reply)?;
        Ok(serde_json::from_str(&reply)?)
    };
    loop {
        let versions = access(None)?;
        thread::sleep(STEP);
        access(Some(versions))?;
        let at = clock::now();
        report_event(&Event::Extended { turn: TURN, at, until: at })?;
        if at >= end || job.stop_file.exists() {
            break;
        }
    }
    report_event(&Event::Released { turn: TURN, at: clock::now() })
}
