//! The client processes of one episode.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quorlock_testkit::spawn;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock;
use crate::history::{History, Record};
use crate::plan::NETWORKS;
use crate::subject::Program;
use crate::task::Task;

/// The interval at which the harness checks for ended clients.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The client processes of an episode. Dropping this kills all of them.
#[derive(Debug)]
pub struct Processes {
    program: Program,
    history: Arc<History>,
    /// The URLs of the nodes, through each of the networks.
    networks: [Vec<String>; NETWORKS],
    /// The address of the server of the registers.
    register: String,
    seed: u64,
    next_client: u32,
    clients: Vec<Option<ClientProcess>>,
}

#[derive(Debug)]
struct ClientProcess {
    client: u32,
    child: Child,
    /// Closed to make the client finish.
    stdin: Option<ChildStdin>,
    /// Reads the client's events.
    reader: Option<JoinHandle<()>>,
}

impl Processes {
    /// Creates an empty set of clients.
    pub fn new(
        program: Program,
        history: Arc<History>,
        networks: [Vec<String>; NETWORKS],
        register: String,
        seed: u64,
    ) -> Self {
        Self { program, history, networks, register, seed, next_client: 0, clients: Vec::new() }
    }

    /// Starts `count` clients.
    ///
    /// # Errors
    /// When a client cannot be started.
    pub fn start_all(&mut self, count: usize) -> io::Result<()> {
        for index in 0..count {
            self.clients.push(None);
            self.start(index)?;
        }
        Ok(())
    }

    /// Kills the client at this index with SIGKILL, even if it is stopped.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        let Some(mut client_process) = self.clients[index].take() else { return Ok(()) };
        let early_exit = client_process.child.try_wait()?;
        client_process.end()?;
        match early_exit {
            Some(status) => self.record_broken_client(client_process.client, status),
            None => self.history.record(Record::Killed { at: clock::now(), client: client_process.client }),
        }
        Ok(())
    }

    /// Starts a new client at this index.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, index: usize) -> io::Result<()> {
        let client = self.next_client;
        self.next_client += 1;
        let urls = self.networks[index % NETWORKS].clone();
        let task = Task::new(client, self.seed.wrapping_add(u64::from(client)), urls, self.register.clone());
        let mut command = self.program.command(task)?;
        // The client has its own process group, so that Ctrl-C reaches only the harness.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = spawn(command)?;
        let stdin = child.stdin.take();
        let reader = child.stdout.take().map(|output| {
            let history = Arc::clone(&self.history);
            thread::spawn(move || record_events(client, BufReader::new(output), &history))
        });
        self.clients[index] = Some(ClientProcess { client, child, stdin, reader });
        Ok(())
    }

    /// Sends SIGSTOP or SIGCONT to the client at this index.
    pub fn signal(&self, index: usize, signal: Signal) {
        if let Some(client_process) = &self.clients[index] {
            // Fails if the client has crashed, which `finish` or `kill` records.
            let _ = kill_process(Pid::from_child(&client_process.child), signal);
        }
    }

    /// Tells every client to finish its turn. Waits while `may_continue`, which gets the elapsed time, returns true. Then
    /// kills the remaining clients.
    ///
    /// # Errors
    /// When a process cannot be waited for.
    pub fn finish(&mut self, mut may_continue: impl FnMut(Duration) -> bool) -> io::Result<()> {
        for client_process in self.clients.iter_mut().flatten() {
            client_process.stdin = None;
        }
        let begun = Instant::now();
        loop {
            let mut running = 0;
            for index in 0..self.clients.len() {
                let Some(client_process) = &mut self.clients[index] else { continue };
                match client_process.child.try_wait()? {
                    None => running += 1,
                    Some(status) => {
                        let client = client_process.client;
                        client_process.end()?;
                        self.clients[index] = None;
                        if !status.success() {
                            self.record_broken_client(client, status);
                        }
                    }
                }
            }
            if running == 0 {
                return Ok(());
            }
            if !may_continue(begun.elapsed()) {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        for index in 0..self.clients.len() {
            self.kill(index)?;
        }
        Ok(())
    }

    fn record_broken_client(&self, client: u32, status: ExitStatus) {
        self.history.record(Record::Broken { client, why: status.to_string() });
    }
}

impl ClientProcess {
    /// Kills the process if it still runs, and reads the rest of its events.
    fn end(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for client_process in self.clients.iter_mut().flatten() {
            let _ = client_process.end();
        }
    }
}

fn record_events(client: u32, output: impl BufRead, history: &History) {
    for line in output.lines() {
        // The last line of a killed client may be cut short.
        let Ok(line) = line else { return };
        match serde_json::from_str(&line) {
            Ok(event) => history.record(Record::Client { client, event }),
            Err(error) if line.ends_with('}') => {
                history.record(Record::Broken { client, why: format!("invalid event {line:?}: {error}") });
            }
            Err(_) => return,
        }
    }
}
