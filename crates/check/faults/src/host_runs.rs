//! Runs `quorlock run` on several simulated hosts. Each host has its own home folder.
//!
//! A *run* is one `quorlock run`. Its processes are the *wrapper* (`quorlock run` itself), the *guard*, which kills the
//! command if the wrapper is stopped or killed, and the command.

mod guard;

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorlock_testkit::{command_that_dies_with_parent, spawn};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Failure;
use crate::clock;
use crate::history::{Event, History, Record};
use crate::inject::POLL_INTERVAL;
use crate::run_command::{Job, TURN};
use crate::task::NAMES;

/// The command of every run: a shell script, which starts the harness as its child. So a grandchild of the wrapper does
/// the work, as in most scripts.
const SCRIPT: &str = r#""$0" command "$1" & wait $!"#;

/// The programs that the hosts run.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program `quorlock`.
    pub quorlock: PathBuf,
    /// The harness, which also does the work of every command.
    pub harness: PathBuf,
}

impl Programs {
    /// Finds the `quorlock` that was built next to the harness.
    ///
    /// # Errors
    /// When `quorlock` was not built.
    pub fn next_to(harness: &Path) -> Result<Self, Failure> {
        let quorlock = harness.with_file_name("quorlock");
        if !quorlock.is_file() {
            let advice = "build it: cargo build --package quorlock-cli, with --release if the harness is";
            return Err(format!("{} is missing; {advice}", quorlock.display()).into());
        }
        Ok(Self { quorlock, harness: harness.into() })
    }
}

/// The runs on all hosts. Dropping this kills all of them.
#[derive(Debug)]
pub struct HostRuns {
    programs: Programs,
    history: Arc<History>,
    /// The address of the server of the registers.
    register: String,
    folder: TempDir,
    settings: Vec<(String, String)>,
    next_client: u32,
    runs: Vec<Run>,
    /// The number of commands that have begun.
    grants: Arc<AtomicUsize>,
    output_readers: Vec<JoinHandle<()>>,
}

/// A run that has not ended.
#[derive(Debug)]
pub struct Run {
    /// The number of the run, which is its client number in the history.
    pub client: u32,
    /// The host on which it runs.
    pub host: usize,
    child: Child,
    stderr_file: PathBuf,
    /// Whether the command works.
    is_working: Arc<AtomicBool>,
}

/// The result of a run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunResult {
    /// The number of the run.
    pub client: u32,
    /// The host on which it ran.
    pub host: usize,
    /// The exit code; `None` if a signal ended the run.
    pub exit_code: Option<i32>,
    /// The run's messages.
    pub stderr: String,
}

impl HostRuns {
    /// Creates hosts without runs. `settings` are environment variables of every run.
    ///
    /// # Errors
    /// When the hosts' folder cannot be created.
    pub fn new(
        programs: Programs,
        history: Arc<History>,
        register: String,
        settings: Vec<(String, String)>,
    ) -> io::Result<Self> {
        let folder = TempDir::with_prefix("quorlock-hosts-")?;
        let (runs, output_readers, grants) = (Vec::new(), Vec::new(), Arc::default());
        Ok(Self { programs, history, register, folder, settings, next_client: 0, runs, grants, output_readers })
    }

    /// Starts a run on a host: `quorlock` with `args`, and then the command, which works for `busy`. Returns the number of
    /// the run.
    ///
    /// If `waits` is true, a run that never gets the lock counts as starved.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, host: usize, args: &[&str], waits: bool, busy: Duration) -> Result<u32, Failure> {
        let client = self.next_client;
        self.next_client += 1;
        let busy_ms = busy.as_millis() as u64;
        let job = Job { client, register: self.register.clone(), busy_ms, stop_file: self.stop_file() };
        let stderr_file = self.folder.path().join(format!("stderr-{client}"));
        let mut command = self.command(host)?;
        command.args(args).args(["--", "sh", "-c", SCRIPT]).arg(&self.programs.harness);
        command.arg(serde_json::to_string(&job)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&stderr_file)?);
        let request =
            Record::Client { client, event: Event::Asked { turn: TURN, name: NAMES[0].into(), at: clock::now() } };
        let mut child = spawn(command)?;
        let is_working = Arc::new(AtomicBool::new(false));
        let unrecorded_request = if waits {
            self.history.record(request);
            None
        } else {
            Some(request)
        };
        if let Some(output) = child.stdout.take() {
            let output_reader = OutputReader {
                client,
                history: Arc::clone(&self.history),
                is_working: Arc::clone(&is_working),
                grants: Arc::clone(&self.grants),
            };
            self.output_readers.push(thread::spawn(move || output_reader.read(unrecorded_request, output)));
        }
        self.runs.push(Run { client, host, child, stderr_file, is_working });
        Ok(client)
    }

    /// Runs `quorlock` on a host with these arguments.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    pub fn call(&self, host: usize, args: &[&str]) -> Result<(), Failure> {
        let output = self.command(host)?.args(args).stdin(Stdio::null()).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("quorlock {args:?}: {stderr}").into()) }
    }

    /// A `quorlock` command on a host, without the `QUORLOCK_` variables of the harness.
    fn command(&self, host: usize) -> io::Result<Command> {
        let home = self.folder.path().join(format!("host-{host}"));
        fs::create_dir_all(&home)?;
        let mut command = command_that_dies_with_parent(self.programs.quorlock.as_os_str());
        for (variable, _) in std::env::vars_os() {
            if variable.to_str().is_some_and(|name| name.starts_with("QUORLOCK_")) {
                command.env_remove(variable);
            }
        }
        command
            .env("HOME", &home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_CONFIG_HOME", home.join("config"));
        // The command has its own process group, so that Ctrl-C reaches only the harness.
        command.envs(self.settings.iter().map(|(name, value)| (name, value))).process_group(0);
        Ok(command)
    }

    fn stop_file(&self) -> PathBuf {
        self.folder.path().join("stop")
    }

    /// Records the runs that have ended, and returns them.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub fn collect_ended(&mut self) -> io::Result<Vec<RunResult>> {
        let mut run_results = Vec::new();
        let mut index = 0;
        while index < self.runs.len() {
            let Some(status) = self.runs[index].child.try_wait()? else {
                index += 1;
                continue;
            };
            let Run { client, host, stderr_file, .. } = self.runs.swap_remove(index);
            let run_result =
                RunResult { client, host, exit_code: status.code(), stderr: fs::read_to_string(stderr_file)? };
            let message = run_result.stderr.lines().next().unwrap_or_default().to_owned();
            match run_result.exit_code {
                Some(code) => self.history.record(Record::RunEnded { at: clock::now(), client, code, message }),
                None => self.history.record(Record::Broken { client, why: status.to_string() }),
            }
            run_results.push(run_result);
        }
        Ok(run_results)
    }

    /// The runs that have not ended.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The number of commands that have begun.
    pub fn grants(&self) -> usize {
        self.grants.load(Ordering::SeqCst)
    }

    /// A run whose command works.
    pub fn holder(&self) -> Option<&Run> {
        self.runs.iter().find(|run| run.is_working.load(Ordering::SeqCst))
    }

    /// Kills the wrapper of a run with SIGKILL, even if the wrapper is stopped. The command and the guard get no signal.
    ///
    /// # Errors
    /// When the wrapper cannot be waited for.
    pub fn kill(&mut self, client: u32) -> io::Result<()> {
        let Some(index) = self.runs.iter().position(|run| run.client == client) else { return Ok(()) };
        let mut run = self.runs.swap_remove(index);
        let at = clock::now();
        run.child.kill()?;
        run.child.wait()?;
        self.history.record(Record::Killed { at, client });
        Ok(())
    }

    /// Tells all commands to end. Waits for all runs while `may_continue`, which gets the elapsed time, returns true. Then
    /// kills the remaining runs.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub fn finish(&mut self, mut may_continue: impl FnMut(Duration) -> bool) -> Result<Vec<RunResult>, Failure> {
        File::create(self.stop_file())?;
        let begun = Instant::now();
        let mut run_results = Vec::new();
        while !self.runs.is_empty() && may_continue(begun.elapsed()) {
            thread::sleep(POLL_INTERVAL);
            run_results.extend(self.collect_ended()?);
        }
        while let Some(run) = self.runs.first() {
            let client = run.client;
            self.kill(client)?;
        }
        // Each reader ends with its command, and each command ends when it sees the stop file.
        for output_reader in self.output_readers.drain(..) {
            let _ = output_reader.join();
        }
        Ok(run_results)
    }
}

impl Run {
    /// The process of the wrapper.
    pub fn wrapper(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process of the guard.
    pub fn guard(&self) -> Option<Pid> {
        guard::guard_of(self.child.id())
    }
}

impl Drop for HostRuns {
    fn drop(&mut self) {
        for run in &mut self.runs {
            if let Some(guard) = run.guard() {
                // A stopped guard could not kill its command.
                let _ = kill_process(guard, Signal::CONT);
            }
            let _ = run.child.kill();
            let _ = run.child.wait();
        }
    }
}

/// Reads the output of a command.
struct OutputReader {
    client: u32,
    history: Arc<History>,
    is_working: Arc<AtomicBool>,
    grants: Arc<AtomicUsize>,
}

impl OutputReader {
    /// Records the command's events. Before the first event, records the run's request, if it is not recorded yet.
    fn read(&self, mut unrecorded_request: Option<Record>, output: ChildStdout) {
        // The last line of a killed command may be cut short.
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Ok(event) = serde_json::from_str::<Event>(&line) else { break };
            if let Some(request) = unrecorded_request.take() {
                self.history.record(request);
            }
            match event {
                Event::Granted { .. } => {
                    self.is_working.store(true, Ordering::SeqCst);
                    self.grants.fetch_add(1, Ordering::SeqCst);
                }
                Event::Released { .. } => self.is_working.store(false, Ordering::SeqCst),
                _ => {}
            }
            self.history.record(Record::Client { client: self.client, event });
        }
        self.is_working.store(false, Ordering::SeqCst);
    }
}
