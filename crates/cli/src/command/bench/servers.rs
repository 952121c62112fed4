//! Redis servers for a benchmark. They end with this process, even if this process is killed.

use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use quorlock::{Client, NodeState};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::random;
use crate::command::run::bound_program;
use crate::exit::{Exit, Failure, Outcome};

/// The longest time from the start of a server to its first answer.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which we check whether a started server answers.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Running servers. Dropping this value stops the servers and removes their files.
pub(super) struct Servers {
    running: Vec<Server>,
    /// The folder of the servers' files. It is dropped after the servers, which write to it until they end.
    folder: TempDir,
}

struct Server {
    process: Child,
    url: String,
}

impl Servers {
    /// Starts this many servers on free ports of this host, without persistence.
    pub(super) async fn start(count: usize) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("quorlock-bench-").tempdir().map_err(start_failure)?;
        let mut servers = Self { running: Vec::new(), folder };
        for number in 0..count {
            let folder = servers.folder.path().join(number.to_string());
            let mut server = Server::spawn(&folder).map_err(start_failure)?;
            server.wait_for_answer(&folder).await?;
            servers.running.push(server);
        }
        Ok(servers)
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.running.iter().map(|server| server.url.clone()).collect()
    }
}

impl Server {
    fn spawn(folder: &Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        // The password keeps other users of this host out.
        let password = format!("{:016x}{:016x}", random(), random());
        let settings = format!(
            "bind 127.0.0.1\nport {port}\ndir \"{}\"\nrequirepass {password}\nsave \"\"\nappendonly no\nloglevel warning\n",
            folder.display()
        );
        let file = folder.join("redis.conf");
        fs::write(&file, settings)?;
        let log = File::create(folder.join("log"))?;
        let mut command = bound_program(None);
        command.arg("redis-server").arg(file).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // In a process group of its own, the server does not get Ctrl-C: this process gets it, and stops the servers.
        let process = command.process_group(0).spawn()?;
        Ok(Self { process, url: format!("redis://:{password}@127.0.0.1:{port}") })
    }

    async fn wait_for_answer(&mut self, folder: &Path) -> Outcome<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.process.try_wait().map_err(start_failure)? {
                if status.code() == Some(Exit::NOT_FOUND.0.into()) {
                    return Err(Failure::config(
                        "--local needs redis-server, which is not installed, or not in PATH\n  \
                         install it (Debian, Ubuntu: apt install redis-server), or measure other nodes: --nodes URL,URL,..",
                    ));
                }
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                return Err(start_failure(format_args!("{status}; its last log line: {last:?}")));
            }
            let examination = Client::builder().nodes([&self.url]).examine(Duration::ZERO).await;
            match examination.nodes.first().map(|node| &node.state) {
                // If our server has ended, the answer came from another server that took the port.
                Some(NodeState::Blank) if self.process.try_wait().map_err(start_failure)?.is_none() => return Ok(()),
                Some(NodeState::Unfit(why)) => return Err(start_failure(why)),
                _ if Instant::now() >= deadline => {
                    return Err(start_failure(format_args!("no answer within {START_TIMEOUT:?}")));
                }
                _ => sleep(CHECK_INTERVAL).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failure does not matter: the server may have ended, and has no data to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start_failure(why: impl Display) -> Failure {
    Failure::internal(format_args!("cannot start redis-server: {why}"))
}
