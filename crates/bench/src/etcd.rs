//! etcd on loopback, with one member for each of our nodes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Failure;
use crate::options::Options;

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// etcd members. Their files are in the build folder, which is on disk, because etcd syncs each entry to disk before it
/// acknowledges the entry. A temporary folder may be in memory.
pub(crate) struct Etcd {
    members: Vec<Child>,
    client_ports: Vec<u16>,
    folder: TempDir,
}

impl Etcd {
    /// Starts the members, and waits until they have a leader.
    pub(crate) fn start(members: usize, options: &Options) -> Result<Self, Failure> {
        std::fs::create_dir_all(&options.folder)?;
        let folder = tempfile::tempdir_in(&options.folder)?;
        let (client_ports, peer_ports) = (free_ports(members)?, free_ports(members)?);
        let initial_cluster: Vec<String> =
            peer_ports.iter().enumerate().map(|(at, port)| format!("m{at}=http://127.0.0.1:{port}")).collect();
        let mut etcd = Self { members: Vec::new(), client_ports, folder };
        for (at, peer_port) in peer_ports.iter().enumerate() {
            let client = format!("http://127.0.0.1:{}", etcd.client_ports[at]);
            let peer = format!("http://127.0.0.1:{peer_port}");
            let mut command = quorlock_testkit::command_that_dies_with_parent("etcd".as_ref());
            command.args(["--name", &format!("m{at}"), "--initial-cluster", &initial_cluster.join(","), "--data-dir"]);
            command.arg(etcd.folder.path().join(at.to_string()));
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            let log = File::create(etcd.folder.path().join(format!("log-{at}")))?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            etcd.members.push(quorlock_testkit::spawn(command)?);
        }
        etcd.wait_until_healthy()?;
        Ok(etcd)
    }

    /// The host and port of each member.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.client_ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    fn wait_until_healthy(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        for (member, port) in self.members.iter_mut().zip(&self.client_ports) {
            while !is_healthy(*port) {
                if member.try_wait()?.is_some() {
                    return Err("etcd did not start: is etcd-server installed?".into());
                }
                if begun.elapsed() > START_TIMEOUT {
                    return Err("etcd did not become healthy".into());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn is_healthy(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

/// Finds free ports. Binds all of them at the same time, so that they differ.
fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    Ok(listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<Result<Vec<_>, std::io::Error>>()?)
}
