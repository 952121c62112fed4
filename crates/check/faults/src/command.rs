//! The command that `quorlock run` runs: it uses the register, and tells that it is alive.

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
use crate::worker::tell;

/// The pause between reading the register and writing it back, and so between two signs of life.
const STEP: Duration = Duration::from_millis(10);
/// A command is one turn of its run.
pub const TURN: u32 = 1;

/// The argument of a command, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The number of its run: no two runs share one.
    pub client: u32,
    /// The address of the register.
    pub register: String,
    /// How long it works.
    pub busy_ms: u64,
    /// A file that ends all commands when it appears.
    pub stop_file: PathBuf,
}

/// Works for as long as the job says, and tells its beginning, its signs of life and its end, with the fence that
/// `quorlock run` gave it.
///
/// A lease is judged to last from the first to the last sign of life: a command that was killed cannot tell its end.
///
/// # Errors
/// When `quorlock run` did not give it a name and a fence, or the register or the harness is gone.
pub fn work(job: &Job) -> Result<(), Failure> {
    let name = env::var("QUORLOCK_NAME")?;
    let fence = env::var("QUORLOCK_FENCE")?.parse()?;
    let begun = clock::now();
    tell(&Event::Granted { turn: TURN, at: begun, until: begun, fence: Some(fence) })?;
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
        tell(&Event::Extended { turn: TURN, at, until: at })?;
        if at >= end || job.stop_file.exists() {
            break;
        }
    }
    tell(&Event::Released { turn: TURN, at: clock::now() })
}
