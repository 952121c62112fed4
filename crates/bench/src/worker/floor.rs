//! The floor: the commands of a cycle as precomputed bytes, one connection per node, one thread.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::{Task, serve};
use crate::case::Figures;
use crate::cycles::Cycles;
use crate::record::Recording;
use crate::replies::Replies;
use crate::{Failure, Outcome};

/// More than the usual replies to one round of all callers.
const READ_MAX: usize = 64 * 1024;

/// Runs until stdin ends.
pub(crate) fn work(task: &Task) -> Outcome {
    if task.recordings.len() != task.nodes.len() {
        return Err("no commands were recorded".into());
    }
    let nodes = task.nodes.iter().zip(&task.recordings);
    let nodes = nodes.map(|(node, recording)| Node::connect(node, recording, task.callers));
    let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    serve(|length| turn(&mut nodes, task.callers, length))
}

fn turn(nodes: &mut [Node], callers: usize, length: Duration) -> Result<Figures, Failure> {
    let begun = Instant::now();
    let mut cycles = Cycles::default();
    while begun.elapsed() < length {
        let asked = Instant::now();
        round(nodes, |node| &node.acquires, callers)?;
        round(nodes, |node| &node.releases, callers)?;
        for _ in 0..callers {
            cycles.ended(asked);
        }
    }
    let elapsed = begun.elapsed();
    // Read the remaining replies before another contender has its turn.
    while nodes.iter().any(Node::owes) {
        hear(nodes)?;
    }
    Ok(cycles.figures(elapsed))
}

/// Writes to all nodes, and waits until a majority has replied to everything.
fn round(nodes: &mut [Node], batch: impl Fn(&Node) -> &[u8], callers: usize) -> std::io::Result<()> {
    for node in nodes.iter_mut() {
        (&node.stream).write_all(batch(node))?;
        node.asked += callers as u64;
    }
    if let [node] = nodes {
        while node.owes() {
            node.read()?;
        }
        return Ok(());
    }
    while nodes.iter().filter(|node| !node.owes()).count() <= nodes.len() / 2 {
        hear(nodes)?;
    }
    Ok(())
}

/// Waits until a node has sent something.
fn hear(nodes: &mut [Node]) -> std::io::Result<()> {
    let mut waited: Vec<PollFd<'_>> = nodes.iter().map(|node| PollFd::new(&node.stream, PollFlags::IN)).collect();
    poll(&mut waited, None)?;
    let ready: Vec<bool> = waited.iter().map(|fd| !fd.revents().is_empty()).collect();
    for (node, ready) in nodes.iter_mut().zip(ready) {
        if ready {
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
    asked: u64,
    replies: Replies,
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
        Ok(Self { stream, acquires, releases, asked: 0, replies: Replies::default(), buffer: vec![0; READ_MAX] })
    }

    fn owes(&self) -> bool {
        self.replies.heard() < self.asked
    }

    fn read(&mut self) -> std::io::Result<()> {
        match self.stream.read(&mut self.buffer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => self.replies.add(&self.buffer[..length]),
        }
    }
}
