//! A Redis server that a test can stop, kill and restart.

mod builder;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use builder::{Aof, RedisServerBuilder};

use crate::clock::Clock;
use crate::disk::Disk;
use crate::port::Port;
use crate::reply::{self, Reply};
use crate::shim;
use crate::spawner;
use crate::wait::{DEADLINE, eventually};

const CONFIG_FILE: &str = "redis.conf";
const LOG_FILE: &str = "redis.log";

/// A real `redis-server` with its own port and folder. Dropping this kills the
/// server.
///
/// The port stays reserved while the server is down, so that a client that connects to the port never reaches another
/// test's server.
#[derive(Debug)]
pub struct RedisServer {
    setup: RedisServerBuilder,
    child: Mutex<Option<Child>>,
    port: Port,
    tls_port: Option<Port>,
    dir: TempDir,
}

/// Another program listens on the port. Programs other than test processes do not respect the reservation.
#[derive(Debug)]
struct PortTaken;

impl RedisServer {
    /// Starts a server without persistence.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts this number of servers without persistence, at the same time.
    pub fn start_many(count: usize) -> Vec<Self> {
        Self::builder().start_many(count)
    }

    /// Returns a builder.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    fn launch_new(setup: &RedisServerBuilder) -> Self {
        loop {
            let server = Self {
                setup: setup.clone(),
                child: Mutex::new(None),
                port: Port::reserve(),
                tls_port: setup.has_tls().then(Port::reserve),
                dir: TempDir::with_prefix("quorlock-redis-").expect("the temporary folder takes a server's folder"),
            };
            if server.launch().is_ok() {
                return server;
            }
        }
    }

    /// The URL for clients, with the password if there is one.
    pub fn url(&self) -> String {
        match &self.setup.password {
            Some(password) => format!("redis://:{password}@{}", self.addr()),
            None => format!("redis://{}", self.addr()),
        }
    }

    /// The port. Restarts do not change it.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port on which the server listens for TLS. Restarts do not change it. Panics if the server has no TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls_port.as_ref().expect("the server was set up with an authority").number()
    }

    /// The address. Restarts do not change it.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// The folder with the configuration, the log and the persistence files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process id. Panics if the server is down.
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the server is up").id()
    }

    /// Whether the process exists. A frozen server is alive.
    pub fn is_alive(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills the process with SIGKILL, even if it is frozen.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            child.kill().expect("a child can be killed");
            child.wait().expect("a killed child can be reaped");
        }
    }

    /// Stops the process with SIGSTOP. Its connections stay open, and the kernel still accepts bytes and connections for
    /// it, as for a process that is paused for a long time.
    pub fn freeze(&self) {
        let pid = self.running_pid();
        kill_process(pid, Signal::STOP).expect("a running server can be stopped");
        eventually("the server to be stopped", || process_state(pid) == 'T');
    }

    /// Continues the process after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        let pid = self.running_pid();
        kill_process(pid, Signal::CONT).expect("a stopped server can be continued");
        eventually("the server to continue", || process_state(pid) != 'T');
    }

    /// Kills the server if it is alive, and starts it again with its files. A server without persistence restarts empty.
    pub fn restart(&self) {
        self.kill();
        eventually("the port to be free again", || self.launch().is_ok());
    }

    /// Like [`restart`](Self::restart), but first deletes the persistence files.
    pub fn restart_empty(&self) {
        self.kill();
        for entry in fs::read_dir(self.dir()).expect("the server's folder can be read") {
            let entry = entry.expect("the server's folder can be read");
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                fs::remove_dir_all(entry.path()).expect("the server's files can be deleted");
            } else if entry.file_name() != CONFIG_FILE && entry.file_name() != LOG_FILE {
                fs::remove_file(entry.path()).expect("the server's files can be deleted");
            }
        }
        self.restart();
    }

    /// Writes a snapshot and ends the server cleanly.
    pub fn shutdown_save(&self) {
        match self.try_command(&["SHUTDOWN", "SAVE"]) {
            // On success the server closes the connection and sends no reply.
            Err(_) => {}
            Ok(reply) => panic!("the server refused to shut down: {reply:?}"),
        }
        eventually("the server to shut down", || !self.is_alive());
        self.kill();
    }

    /// Writes a snapshot. If there is no append-only file, the next start loads the snapshot.
    pub fn save(&self) {
        assert_eq!(self.command(&["SAVE"]).as_str(), Some("OK"));
    }

    /// Sends one command over a new connection. Panics if the server does not reply. An error reply is a
    /// [`Reply::Error`].
    #[track_caller]
    pub fn command(&self, args: &[&str]) -> Reply {
        match self.try_command(args) {
            Ok(reply) => reply,
            Err(error) => panic!("{args:?} got no reply from {}: {error}", self.addr()),
        }
    }

    /// Like [`command`](Self::command), for servers that may be unreachable.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, does not reply within 5 seconds, or closes the connection.
    pub fn try_command(&self, args: &[&str]) -> io::Result<Reply> {
        reply::send_command(self.addr(), self.setup.password.as_deref(), args)
    }

    /// All keys that match `pattern`, sorted.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = self.command(&["SCAN", &cursor, "MATCH", pattern, "COUNT", "1000"]);
            let Reply::Array(parts) = &reply else {
                panic!("SCAN answered {reply:?}");
            };
            let (next, page) = (&parts[0], &parts[1]);
            keys.extend(page.strings());
            next.as_str().expect("a cursor is text").clone_into(&mut cursor);
            if cursor == "0" {
                // A scan may return a key twice.
                keys.sort();
                keys.dedup();
                return keys;
            }
        }
    }

    /// Waits until this replica has all data that its master has now.
    pub fn catch_up_with(&self, master: &Self) {
        let master_offset = master.replication_offset("master_repl_offset");
        eventually("the replica to catch up", || self.replication_offset("slave_repl_offset") >= master_offset);
    }

    fn replication_offset(&self, field: &str) -> u64 {
        let info = self.command(&["INFO", "replication"]);
        let line = |line: &str| line.strip_prefix(field)?.strip_prefix(':')?.parse().ok();
        info.as_str().and_then(|text| text.lines().find_map(line)).unwrap_or_default()
    }

    /// The output of the real `redis-cli` with these arguments, trimmed.
    #[track_caller]
    pub fn cli(&self, args: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port().to_string()]).args(args);
        if let Some(password) = &self.setup.password {
            command.env("REDISCLI_AUTH", password);
        }
        let output = command.stdin(Stdio::null()).output().expect("redis-cli is not installed; ./x test installs it");
        assert!(
            output.status.success(),
            "redis-cli {args:?} failed: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), PortTaken> {
        let config = self.dir().join(CONFIG_FILE);
        let log = self.dir().join(LOG_FILE);
        let tls_port = self.tls_port.as_ref().map(Port::number);
        fs::write(&config, self.setup.config_file(self.port(), tls_port, self.dir()))
            .expect("the server's configuration can be written");
        let log_file = File::create(&log).expect("the server's log can be created");
        let log_copy = log_file.try_clone().expect("a file handle can be copied");

        let program: OsString = builder::server_program();
        let mut command = spawner::command_that_dies_with_parent(&program);
        command
            .arg(&config)
            .args(self.setup.is_sentinel.then_some("--sentinel"))
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .stdout(log_file)
            .stderr(log_copy);
        let (clock, disk) = (self.setup.clock.iter(), self.setup.disk.iter());
        command.envs(shim::merge_envs(clock.flat_map(Clock::envs).chain(disk.flat_map(Disk::envs))));
        let child = spawner::spawn(command).expect("redis-server can be started");
        let pid = child.id();
        *self.child() = Some(child);

        let start = Instant::now();
        while !self.answers_as(pid) {
            let log = || fs::read_to_string(&log).unwrap_or_default();
            if !self.is_alive() {
                self.kill();
                if log().contains("Address already in use") {
                    return Err(PortTaken);
                }
                panic!("redis-server ended at its start:\n{}", log());
            }
            assert!(start.elapsed() < DEADLINE, "redis-server does not answer:\n{}", log());
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether the server with this process id has started. A server refuses PING while it loads files. Another program
    /// that took the port has another process id.
    fn answers_as(&self, pid: u32) -> bool {
        let pong = self.try_command(&["PING"]);
        if !pong.is_ok_and(|reply| reply.as_str() == Some("PONG")) {
            return false;
        }
        let line = format!("process_id:{pid}");
        self.try_command(&["INFO", "server"])
            .is_ok_and(|info| info.as_str().is_some_and(|text| text.lines().any(|l| l == line)))
    }

    #[track_caller]
    fn running_pid(&self) -> Pid {
        let child = self.child();
        Pid::from_child(child.as_ref().expect("the server is up"))
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that has panicked must still be able to drop its server.
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // No panic here: it would abort a test process that is unwinding.
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The state letter of `/proc/PID/stat`, which follows the name in brackets.
fn process_state(pid: Pid) -> char {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = fs::read_to_string(path).expect("a child that is not reaped has a stat file");
    let (_, fields) = stat.rsplit_once(") ").expect("a stat line holds a name");
    fields.chars().next().expect("a stat line holds a state")
}
