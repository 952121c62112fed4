//! The servers of one episode, the networks in front of them, and the faults of both.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use quorlock_testkit::{Aof, Clock, Disk, Loss, Proxy, RedisServer};

use crate::operation::{attach_replica, back_up, quick_replication};
use crate::plan::{Act, Fault, Memory, Plan, SIDES, Target};

/// A memory limit that makes the server refuse every write.
const TOO_LITTLE: &str = "1";
/// One lost message in this many is never sent again.
const FOR_GOOD_ONE_IN: u64 = 8;
/// A lost message is sent again after this time.
const RESENT_AFTER: Duration = Duration::from_millis(200);

/// Servers and networks. Dropping it stops all of them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    seed: u64,
}

#[derive(Debug)]
struct Node {
    // Networks are dropped first, so that no client reaches a server that is being stopped.
    sides: Vec<Proxy>,
    replica: Option<RedisServer>,
    server: RedisServer,
    clock: Clock,
    disk: Disk,
    offset_ms: i64,
}

impl Cluster {
    /// Starts the servers and networks of a plan.
    pub fn start(plan: &Plan) -> Self {
        Self { nodes: plan.memories.iter().map(|memory| Node::start(*memory)).collect(), seed: plan.seed }
    }

    /// The URLs of the nodes, through one of the networks.
    pub fn urls(&self, side: usize) -> Vec<String> {
        self.nodes.iter().map(|node| node.sides[side].url()).collect()
    }

    /// The addresses of the servers themselves.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.server.addr()).collect()
    }

    /// Whether a majority of the nodes belongs to no cluster.
    pub fn is_mostly_blank(&self) -> bool {
        let is_blank = |node: &&Node| {
            let mark = node.server.try_command(&["GET", "quorlock~epoch"]);
            mark.is_ok_and(|mark| mark.as_str().is_none_or(str::is_empty))
        };
        self.nodes.iter().filter(is_blank).count() > self.nodes.len() / 2
    }

    /// Begins a fault of a node or a network. Ignores faults of clients.
    pub fn begin(&mut self, fault: &Fault) {
        let seed = self.seed ^ fault.at.as_nanos() as u64;
        self.apply(fault, |node| node.begin(fault, seed));
    }

    /// Ends a fault that was begun.
    pub fn end(&mut self, fault: &Fault) {
        self.apply(fault, |node| node.end(fault));
    }

    /// Applies a fault to all of its targets at the same time.
    fn apply(&mut self, fault: &Fault, act: impl Fn(&mut Node) + Sync) {
        thread::scope(|scope| {
            for node in self.targets(fault) {
                scope.spawn(|| act(node));
            }
        });
    }

    fn targets(&mut self, fault: &Fault) -> &mut [Node] {
        match fault.target {
            Target::Node(node) | Target::Link { node, .. } => &mut self.nodes[node..=node],
            Target::Nodes(count) => &mut self.nodes[..count],
            Target::Client(_) | Target::Holder | Target::Sentinel => &mut [],
        }
    }
}

impl Node {
    fn start(memory: Memory) -> Self {
        let (clock, disk) = (Clock::new(), Disk::new());
        let builder = quick_replication(RedisServer::builder().clock(&clock).disk(&disk));
        let server = match memory {
            Memory::None => builder,
            Memory::AofEverysec => builder.aof(Aof::Everysec),
            Memory::AofAlways => builder.aof(Aof::Always),
        }
        .start();
        let sides = (0..SIDES).map(|_| Proxy::start(server.addr())).collect();
        Self { sides, replica: None, server, clock, disk, offset_ms: 0 }
    }

    fn begin(&mut self, fault: &Fault, seed: u64) {
        let amount = fault.amount;
        match fault.act {
            Act::Kill | Act::Wipe => self.server.kill(),
            Act::Freeze => self.server.freeze(),
            Act::Backup => back_up(&self.server),
            Act::Replica => self.replica = Some(attach_replica(&self.server)),
            Act::Flush => self.command(&["FLUSHALL"]),
            Act::ForgetScripts => self.command(&["SCRIPT", "FLUSH"]),
            Act::FillUp => self.command(&["CONFIG", "SET", "maxmemory", TOO_LITTLE]),
            Act::AllowEviction => self.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]),
            Act::SlowDisk => self.disk.slow_syncs(Duration::from_millis(amount)),
            Act::StepBack => self.step_clock(-(amount as i64)),
            Act::Nudge | Act::JumpAhead => self.step_clock(amount as i64),
            _ => self.begin_on_side(fault, seed),
        }
    }

    fn begin_on_side(&self, fault: &Fault, seed: u64) {
        let Target::Link { side, .. } = fault.target else { return };
        let (link, amount) = (&self.sides[side], fault.amount);
        match fault.act {
            Act::Cut => link.cut(),
            Act::CutAfterRequests => link.cut_after_requests(amount),
            Act::HalfClose => link.half_close(),
            Act::Delay => link.delay(Duration::from_millis(amount)),
            Act::Lose => {
                let (one_in, for_good_one_in) = (amount, FOR_GOOD_ONE_IN);
                link.lose(Some(Loss { one_in, resent_after: RESENT_AFTER, for_good_one_in, seed }));
            }
            Act::DropRequests => link.drop_requests(true),
            Act::DropReplies => link.drop_replies(true),
            Act::Hold => link.hold(true),
            Act::Refuse => {
                link.refuse(true);
                link.cut();
            }
            Act::Strand => link.strand_next_requests(),
            _ => {}
        }
    }

    fn end(&mut self, fault: &Fault) {
        match fault.act {
            Act::Kill => self.server.restart(),
            Act::Wipe => self.server.restart_empty(),
            Act::Freeze => self.server.thaw(),
            Act::Replica => self.replica = None,
            Act::FillUp => self.command(&["CONFIG", "SET", "maxmemory", "0"]),
            Act::AllowEviction => self.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]),
            Act::SlowDisk => self.disk.slow_syncs(Duration::ZERO),
            Act::JumpAhead => self.step_clock(-(fault.amount as i64)),
            _ => self.end_on_side(fault),
        }
    }

    fn end_on_side(&self, fault: &Fault) {
        let Target::Link { side, .. } = fault.target else { return };
        let link = &self.sides[side];
        match fault.act {
            Act::Delay => link.delay(Duration::ZERO),
            Act::Lose => link.lose(None),
            // A TCP stream has no gaps: messages after a lost one must not be read.
            Act::DropRequests | Act::DropReplies => {
                link.refuse(true);
                link.cut();
                link.drop_requests(false);
                link.drop_replies(false);
                link.refuse(false);
            }
            Act::Hold => link.hold(false),
            Act::Refuse => link.refuse(false),
            Act::Strand => link.deliver_stranded(),
            _ => {}
        }
    }

    fn command(&self, args: &[&str]) {
        self.server.command(args);
    }

    fn step_clock(&mut self, by_ms: i64) {
        self.offset_ms += by_ms;
        self.clock.set_offset_micros(self.offset_ms * 1_000);
    }
}
