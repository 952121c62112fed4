//! The servers and networks of one episode, and their faults.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use quorlock_testkit::{Aof, Clock, Disk, Loss, Proxy, RedisServer};

use crate::operation::{attach_replica, back_up, quick_replication};
use crate::plan::{Fault, FaultKind, NETWORKS, Persistence, Plan, Target};

/// A memory limit in bytes that makes the server refuse every write.
const MAXMEMORY_TOO_LOW: &str = "1";
/// One in this number of lost messages is never sent again.
const NEVER_RESENT_ONE_IN: u64 = 8;
/// The time after which a lost message is sent again.
const RESEND_DELAY: Duration = Duration::from_millis(200);

/// The servers and networks of an episode. Dropping the cluster stops all of them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    seed: u64,
}

#[derive(Debug)]
struct Node {
    // One proxy for each network. Fields are dropped in order: the proxies first, so that no client reaches a server that
    // stops.
    networks: Vec<Proxy>,
    replica: Option<RedisServer>,
    server: RedisServer,
    clock: Clock,
    disk: Disk,
    clock_offset_ms: i64,
}

impl Cluster {
    /// Starts the servers and networks of a plan.
    pub fn start(plan: &Plan) -> Self {
        Self { nodes: plan.persistence.iter().map(|persistence| Node::start(*persistence)).collect(), seed: plan.seed }
    }

    /// The URLs of the nodes, through one of the networks.
    pub fn urls(&self, network: usize) -> Vec<String> {
        self.nodes.iter().map(|node| node.networks[network].url()).collect()
    }

    /// The addresses of the servers themselves.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.server.addr()).collect()
    }

    /// Whether a majority of the nodes has forgotten the cluster.
    pub fn has_forgotten_cluster(&self) -> bool {
        let has_no_epoch = |node: &&Node| {
            let epoch = node.server.try_command(&["GET", "quorlock~epoch"]);
            epoch.is_ok_and(|epoch| epoch.as_str().is_none_or(str::is_empty))
        };
        self.nodes.iter().filter(has_no_epoch).count() > self.nodes.len() / 2
    }

    /// Begins a fault of a node or a network. Ignores faults of clients.
    pub fn begin(&mut self, fault: &Fault) {
        let seed = self.seed ^ fault.at.as_nanos() as u64;
        self.for_each_target(fault, |node| node.begin(fault, seed));
    }

    /// Ends a fault.
    pub fn end(&mut self, fault: &Fault) {
        self.for_each_target(fault, |node| node.end(fault));
    }

    /// Calls `change` for all nodes that the fault hits, in parallel.
    fn for_each_target(&mut self, fault: &Fault, change: impl Fn(&mut Node) + Sync) {
        thread::scope(|scope| {
            for node in self.targets(fault) {
                scope.spawn(|| change(node));
            }
        });
    }

    fn targets(&mut self, fault: &Fault) -> &mut [Node] {
        match fault.target {
            Target::Node(node) | Target::Network { node, .. } => &mut self.nodes[node..=node],
            Target::Nodes(count) => &mut self.nodes[..count],
            Target::Client(_) | Target::Holder | Target::Sentinel => &mut [],
        }
    }
}

impl Node {
    fn start(persistence: Persistence) -> Self {
        let (clock, disk) = (Clock::new(), Disk::new());
        let builder = quick_replication(RedisServer::builder().clock(&clock).disk(&disk));
        let server = match persistence {
            Persistence::None => builder,
            Persistence::AofEverysec => builder.aof(Aof::Everysec),
            Persistence::AofAlways => builder.aof(Aof::Always),
        }
        .start();
        let networks = (0..NETWORKS).map(|_| Proxy::start(server.addr())).collect();
        Self { networks, replica: None, server, clock, disk, clock_offset_ms: 0 }
    }

    fn begin(&mut self, fault: &Fault, seed: u64) {
        let amount = fault.amount;
        match fault.kind {
            FaultKind::Kill | FaultKind::Wipe => self.server.kill(),
            FaultKind::Freeze => self.server.freeze(),
            FaultKind::Backup => back_up(&self.server),
            FaultKind::Replica => self.replica = Some(attach_replica(&self.server)),
            FaultKind::Flush => self.command(&["FLUSHALL"]),
            FaultKind::ForgetScripts => self.command(&["SCRIPT", "FLUSH"]),
            FaultKind::FillMemory => self.command(&["CONFIG", "SET", "maxmemory", MAXMEMORY_TOO_LOW]),
            FaultKind::AllowEviction => self.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]),
            FaultKind::SlowDisk => self.disk.slow_syncs(Duration::from_millis(amount)),
            FaultKind::StepBack => self.step_clock(-(amount as i64)),
            FaultKind::StepAhead | FaultKind::JumpAhead => self.step_clock(amount as i64),
            _ => self.begin_on_network(fault, seed),
        }
    }

    fn begin_on_network(&self, fault: &Fault, seed: u64) {
        let Target::Network { network, .. } = fault.target else { return };
        let (proxy, amount) = (&self.networks[network], fault.amount);
        match fault.kind {
            FaultKind::ResetConnections => proxy.cut(),
            FaultKind::ResetAfterRequests => proxy.cut_after_requests(amount),
            FaultKind::HalfClose => proxy.half_close(),
            FaultKind::Delay => proxy.delay(Duration::from_millis(amount)),
            FaultKind::LoseMessages => {
                let (lost_one_in, never_resent_one_in) = (amount, NEVER_RESENT_ONE_IN);
                proxy.lose(Some(Loss { lost_one_in, resend_delay: RESEND_DELAY, never_resent_one_in, seed }));
            }
            FaultKind::DropRequests => proxy.drop_requests(true),
            FaultKind::DropReplies => proxy.drop_replies(true),
            FaultKind::HoldMessages => proxy.hold(true),
            FaultKind::RefuseConnections => {
                proxy.refuse(true);
                proxy.cut();
            }
            FaultKind::DeliverLate => proxy.strand_next_requests(),
            _ => {}
        }
    }

    fn end(&mut self, fault: &Fault) {
        match fault.kind {
            FaultKind::Kill => self.server.restart(),
            FaultKind::Wipe => self.server.restart_empty(),
            FaultKind::Freeze => self.server.thaw(),
            FaultKind::Replica => self.replica = None,
            FaultKind::FillMemory => self.command(&["CONFIG", "SET", "maxmemory", "0"]),
            FaultKind::AllowEviction => self.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]),
            FaultKind::SlowDisk => self.disk.slow_syncs(Duration::ZERO),
            FaultKind::JumpAhead => self.step_clock(-(fault.amount as i64)),
            _ => self.end_on_network(fault),
        }
    }

    fn end_on_network(&self, fault: &Fault) {
        let Target::Network { network, .. } = fault.target else { return };
        let proxy = &self.networks[network];
        match fault.kind {
            FaultKind::Delay => proxy.delay(Duration::ZERO),
            FaultKind::LoseMessages => proxy.lose(None),
            // The lost messages are a gap in the stream. TCP allows no gap, so the connection must break before a later
            // message arrives.
            FaultKind::DropRequests | FaultKind::DropReplies => {
                proxy.refuse(true);
                proxy.cut();
                proxy.drop_requests(false);
                proxy.drop_replies(false);
                proxy.refuse(false);
            }
            FaultKind::HoldMessages => proxy.hold(false),
            FaultKind::RefuseConnections => proxy.refuse(false),
            FaultKind::DeliverLate => proxy.deliver_stranded(),
            _ => {}
        }
    }

    fn command(&self, args: &[&str]) {
        self.server.command(args);
    }

    fn step_clock(&mut self, by_ms: i64) {
        self.clock_offset_ms += by_ms;
        self.clock.set_offset_micros(self.clock_offset_ms * 1_000);
    }
}
