//! The servers of one episode, the networks in front of them, and what is done to both.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use quorlock_testkit::{Aof, Clock, Disk, Loss, Proxy, RedisServer};

use crate::operation::{attach_replica, back_up, quick_replication};
use crate::plan::{Act, Deed, Memory, Plan, SIDES, Target};

/// So little that every write is refused.
const TOO_LITTLE: &str = "1";
/// For good, one lost message in so many.
const FOR_GOOD_ONE_IN: u64 = 8;
/// A lost message is sent again after this.
const RESENT_AFTER: Duration = Duration::from_millis(200);

/// The servers and the networks. Dropping it stops all of them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    seed: u64,
}

#[derive(Debug)]
struct Node {
    // The networks go first, so that nobody meets a server that is being stopped.
    sides: Vec<Proxy>,
    replica: Option<RedisServer>,
    server: RedisServer,
    clock: Clock,
    disk: Disk,
    offset_ms: i64,
}

impl Cluster {
    /// Starts everything.
    pub fn start(plan: &Plan) -> Self {
        Self { nodes: plan.memories.iter().map(|memory| Node::start(*memory)).collect(), seed: plan.seed }
    }

    /// The nodes as one side's clients reach them.
    pub fn urls(&self, side: usize) -> Vec<String> {
        self.nodes.iter().map(|node| node.sides[side].url()).collect()
    }

    /// The nodes themselves.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.server.addr()).collect()
    }

    /// Whether a majority of the nodes knows of no cluster.
    pub fn is_mostly_blank(&self) -> bool {
        let is_blank = |node: &&Node| {
            let mark = node.server.try_command(&["GET", "quorlock~epoch"]);
            mark.is_ok_and(|mark| mark.as_str().is_none_or(str::is_empty))
        };
        self.nodes.iter().filter(is_blank).count() > self.nodes.len() / 2
    }

    /// Begins what is done to a node or a network. Clients are not on this cluster.
    pub fn begin(&mut self, deed: &Deed) {
        let seed = self.seed ^ deed.at.as_nanos() as u64;
        self.strike(deed, |node| node.begin(deed, seed));
    }

    /// Ends it.
    pub fn end(&mut self, deed: &Deed) {
        self.strike(deed, |node| node.end(deed));
    }

    /// Does it to all that it is meant for, at the same time.
    fn strike(&mut self, deed: &Deed, act: impl Fn(&mut Node) + Sync) {
        thread::scope(|scope| {
            for node in self.struck(deed) {
                scope.spawn(|| act(node));
            }
        });
    }

    fn struck(&mut self, deed: &Deed) -> &mut [Node] {
        match deed.target {
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

    fn begin(&mut self, deed: &Deed, seed: u64) {
        let amount = deed.amount;
        match deed.act {
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
            _ => self.begin_on_side(deed, seed),
        }
    }

    fn begin_on_side(&self, deed: &Deed, seed: u64) {
        let Target::Link { side, .. } = deed.target else { return };
        let (link, amount) = (&self.sides[side], deed.amount);
        match deed.act {
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

    fn end(&mut self, deed: &Deed) {
        match deed.act {
            Act::Kill => self.server.restart(),
            Act::Wipe => self.server.restart_empty(),
            Act::Freeze => self.server.thaw(),
            Act::Replica => self.replica = None,
            Act::FillUp => self.command(&["CONFIG", "SET", "maxmemory", "0"]),
            Act::AllowEviction => self.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]),
            Act::SlowDisk => self.disk.slow_syncs(Duration::ZERO),
            Act::JumpAhead => self.step_clock(-(deed.amount as i64)),
            _ => self.end_on_side(deed),
        }
    }

    fn end_on_side(&self, deed: &Deed) {
        let Target::Link { side, .. } = deed.target else { return };
        let link = &self.sides[side];
        match deed.act {
            Act::Delay => link.delay(Duration::ZERO),
            Act::Lose => link.lose(None),
            // TCP has no holes: what comes after one must not be read.
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
