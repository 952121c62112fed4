//! The floor: a minimal client that sends the commands of a cycle as precomputed bytes. It has one connection per node
//! and one thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::{Task, run_turns};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::recording::Recording;
use crate::replies::ReplyCounter;
use crate::{Failure, Outcome};

/// The size of a read buffer. Usually the replies to the requests of all callers fit into it.
const READ_MAX: usize = 64 * 1024;

/// Runs until stdin ends.
pub(crate) fn work(task: &Task) -> Outcome {
    if task.recordings.len() != task.nodes.len() {
        return Err("no commands were recorded".into());
    }
    let nodes = task.nodes.iter().zip(&task.recordings);
    let nodes = nodes.map(|(node, recording)| Node::connect(node, recording, task.callers));
    let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    run_turns(|length| turn(&mut nodes, task.callers, length))
}

fn turn(nodes: &mut [Node], callers: usize, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut cycles = Cycles::default();
    while begun.elapsed() < length {
        let started_at = Instant::now();
        round(nodes, |node| &node.acquires, callers)?;
        round(nodes, |node| &node.releases, callers)?;
        for _ in 0..callers {
            cycles.record_success(started_at);
        }
    }
    let elapsed = begun.elapsed();
    // Read the remaining replies before the turn of the next contender.
    while nodes.iter().any(Node::has_missing_replies) {
        read_replies(nodes)?;
    }
    Ok(cycles.figures(elapsed))
}

/// Writes the requests of all callers to all nodes, and waits until a majority has replied to all of them.
fn round(nodes: &mut [Node], batch: impl Fn(&Node) -> &[u8], callers: usize) -> std::io::Result<()> {
    for node in nodes.iter_mut() {
        (&node.stream).write_all(batch(node))?;
        node.requests += callers as u64;
    }
    if let [node] = nodes {
        while node.has_missing_replies() {
            node.read()?;
        }
        return Ok(());
    }
    while nodes.iter().filter(|node| !node.has_missing_replies()).count() <= nodes.len() / 2 {
        read_replies(nodes)?;
    }
    Ok(())
}

/// Waits until a node has sent bytes, and reads them.
fn read_replies(nodes: &mut [Node]) -> std::io::Result<()> {
    let mut sockets: Vec<PollFd<'_>> = nodes.iter().map(|node| PollFd::new(&node.stream, PollFlags::IN)).collect();
    poll(&mut sockets, None)?;
    let are_ready: Vec<bool> = sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
    for (node, is_ready) in nodes.iter_mut().zip(are_ready) {
        if is_ready {
            node.read()?;
        }
    }
    Ok(())
}

struct Node {
    stream: TcpStream,
    /// The requests of all callers, in one write.
    acquires: Vec<u8>,
    releases: Vec<u8>,
    requests: u64,
    replies: ReplyCounter,
    buffer: Vec<u8>,
}

impl Node {
    fn connect(node: &str, recording: &Recording, callers: usize) -> std::io::Result<Self> {
        let stream = TcpStream::connect(node.trim_start_matches("redis://"))?;
        stream.set_nodelay(true)?;
        let (mut acquires, mut releases) = (Vec::new(), Vec::new());
        for caller in 0..callers {
            let (acquire, release) = recording.of_caller(caller);
            acquires.extend(acquire);
            releases.extend(release);
        }
        Ok(Self {
            stream,
            acquires,
            releases,
            requests: 0,
            replies: ReplyCounter::default(),
            buffer: vec![0; READ_MAX],
        })
    }

    fn has_missing_replies(&self) -> bool {
        self.replies.count() < self.requests
    }

    fn read(&mut self) -> std::io::Result<()> {
        match self.stream.read(&mut self.buffer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => self.replies.add(&self.buffer[..length]),
        }
    }
}
