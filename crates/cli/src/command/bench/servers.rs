//! Redis servers of our own, which end with us, even if we are killed.

use std::fmt::Display;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::command::run::mortal;
use crate::exit::{Exit, Failure};

/// A port that looked free may be taken by somebody else before the server has it.
const TRIES: usize = 5;
/// How long a server may take until it answers.
const START: Duration = Duration::from_secs(10);
/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(10);

/// Running servers. Dropped, they and their files are gone.
pub(crate) struct Servers {
    running: Vec<Server>,
    /// Dropped after the servers, which write to it until they end.
    folder: TempDir,
}

/// Why a server is of no use.
enum Unfit {
    NotInstalled,
    Silent(String),
}

struct Server {
    process: Child,
    port: u16,
    password: String,
}

impl Servers {
    /// Starts this many on free ports of this machine, without persistence.
    pub(crate) async fn start(count: usize) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("quorlock-bench-").tempdir();
        let folder = folder.map_err(|error| failed(format_args!("no folder for its files: {error}")))?;
        let mut servers = Self { running: Vec::new(), folder };
        for number in 0..count {
            let server = Server::start(&servers.folder.path().join(number.to_string())).await?;
            servers.running.push(server);
        }
        Ok(servers)
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        let url = |server: &Server| format!("redis://:{}@127.0.0.1:{}", server.password, server.port);
        self.running.iter().map(url).collect()
    }
}

impl Server {
    async fn start(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir(folder).map_err(|error| failed(format_args!("no folder for its files: {error}")))?;
        let mut why = String::new();
        for _ in 0..TRIES {
            let mut server = Self::spawn(folder)?;
            match server.answers().await {
                Ok(()) => return Ok(server),
                Err(Unfit::NotInstalled) => return Err(not_installed()),
                Err(Unfit::Silent(told)) => why = told,
            }
        }
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        Err(failed(format_args!("{why}; its last words: {last:?}")))
    }

    fn spawn(folder: &Path) -> Result<Self, Failure> {
        let told = |error: io::Error| failed(error);
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr()).map_err(told)?.port();
        // Nobody else on this machine has to do with it, and it proves that who answers is ours.
        let password = format!("{:016x}{:016x}", random(), random());
        let settings = format!(
            "bind 127.0.0.1\nport {port}\ndir \"{}\"\nrequirepass {password}\nsave \"\"\nappendonly no\nloglevel warning\n",
            folder.display()
        );
        let file = folder.join("redis.conf");
        fs::write(&file, settings).map_err(told)?;
        let log = File::create(folder.join("log")).map_err(told)?;
        let mut command = mortal(None);
        command.arg("redis-server").arg(file).stdin(Stdio::null()).stdout(log.try_clone().map_err(told)?).stderr(log);
        // Not in our process group: a Ctrl-C is for us, and we end the servers.
        let process = command.process_group(0).spawn().map_err(told)?;
        Ok(Self { process, port, password })
    }

    /// Waits until it answers.
    async fn answers(&mut self) -> Result<(), Unfit> {
        let limit = Instant::now() + START;
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.code() == Some(Exit::NOT_FOUND.0.into()) => return Err(Unfit::NotInstalled),
                Ok(Some(status)) => return Err(Unfit::Silent(format!("it ended with {status}"))),
                Ok(None) => {}
                Err(error) => return Err(Unfit::Silent(error.to_string())),
            }
            match timeout(START, self.greet()).await {
                Ok(Ok(true)) => return Ok(()),
                _ if Instant::now() >= limit => return Err(Unfit::Silent(format!("no answer within {START:?}"))),
                _ => sleep(LOOK).await,
            }
        }
    }

    async fn greet(&self) -> io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        stream.write_all(format!("AUTH {}\r\n", self.password).as_bytes()).await?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await?;
        Ok(answer == *b"+OK\r\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nothing to be saved. One that has ended already needs no kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn not_installed() -> Failure {
    Failure::config(
        "--local needs redis-server, which is not installed, or not in PATH\n  \
         install it (Debian, Ubuntu: apt install redis-server), or measure other nodes: --nodes URL,URL,..",
    )
}

fn failed(why: impl Display) -> Failure {
    Failure::internal(format!("cannot start redis-server: {why}"))
}

/// Seeded by the operating system each time.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
