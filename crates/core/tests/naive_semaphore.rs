//! Why a semaphore has slots: "k permits on each node, and a majority decides" admits more than k holders.
//!
//! Both kinds of node are searched exhaustively: three clients that ask, give up and ask anew under another id while
//! what they had is still being taken back, in every order. Whoever dies is one who gave up and never came back.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeTime, Record, apply};
use quorlock_core::quorum::Quorum;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{Request, Vote};

const PERMITS: u32 = 2;
const NODES: usize = 3;
const CLIENTS: u8 = 3;
/// More than either search needs: it is to end even if a rule is broken.
const STATES_MAX: usize = 200_000;

/// A client's attempt. Two ids are enough: one is used again when every trace of it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    client: u8,
    id: bool,
}

/// A vote that stands on a node: for whom, and for which slot.
type Standing = (Attempt, u32);

trait Voter: Clone {
    fn new() -> Self;
    /// Asks for a vote, looking for a free slot from `start`.
    fn ask(&mut self, attempt: Attempt, start: u32);
    fn take_back(&mut self, attempt: Attempt);
    fn standing(&self) -> Vec<Standing>;
}

/// So many permits on each node, whoever has the others elsewhere.
#[derive(Clone)]
struct Naive(BTreeSet<Attempt>);

impl Voter for Naive {
    fn new() -> Self {
        Self(BTreeSet::new())
    }

    fn ask(&mut self, attempt: Attempt, _start: u32) {
        if self.0.len() < PERMITS as usize {
            self.0.insert(attempt);
        }
    }

    fn take_back(&mut self, attempt: Attempt) {
        self.0.remove(&attempt);
    }

    fn standing(&self) -> Vec<Standing> {
        self.0.iter().map(|attempt| (*attempt, 0)).collect()
    }
}

/// A node as it ships.
#[derive(Clone)]
struct Shipped {
    record: Record,
    standing: BTreeSet<Standing>,
}

impl Shipped {
    fn send(&mut self, request: &Request) -> Vote {
        const EPOCH: Epoch = Epoch(1);
        let constants =
            Constants { cluster: String::new(), nodes: NODES, max_ttl_millis: 60_000, sigma_micros: 10_000_000 };
        let life = Incarnation {
            identity: Identity::default(),
            epoch: Some(EPOCH),
            floor: Some(Fence::default()),
            quarantine_micros: 66_000_000,
            suspended: false,
            elapsed_micros: 0,
            constants,
            founders: String::new(),
            restarts: 0,
        };
        apply(&life, &mut self.record, request, EPOCH, NodeTime::wall(1_000_000_000), |_| false).vote
    }
}

fn lease_id(attempt: Attempt) -> LeaseId {
    LeaseId::from_bits(u128::from(attempt.client) * 2 + u128::from(attempt.id))
}

impl Voter for Shipped {
    fn new() -> Self {
        Self { record: Record::default(), standing: BTreeSet::new() }
    }

    fn ask(&mut self, attempt: Attempt, start: u32) {
        let request = Request::Acquire {
            attempt: lease_id(attempt),
            proposal: Fence::default(),
            ttl: Ttl::new(Duration::from_secs(1), Duration::MAX).expect("it is within bounds"),
            holder: "".into(),
            mode: Mode::Slot { permits: PERMITS, slot: start },
            waiter: None,
        };
        if let Vote::Grant { slot, .. } = self.send(&request) {
            self.standing.insert((attempt, slot.expect("a grant of a semaphore names its slot").index));
        }
    }

    fn take_back(&mut self, attempt: Attempt) {
        self.send(&Request::Release { attempt: lease_id(attempt), tombstone: None, parting: None });
        self.standing.retain(|(standing, _)| *standing != attempt);
    }

    fn standing(&self) -> Vec<Standing> {
        self.standing.iter().copied().collect()
    }
}

#[derive(Clone, Copy)]
enum Step {
    Ask { attempt: Attempt, node: usize, start: u32 },
    TakeBack { attempt: Attempt, node: usize },
    GiveUp { client: u8 },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { attempt, node, start } => {
                write!(f, "client {} asks node {node}, from slot {start}", attempt.client)
            }
            Self::TakeBack { attempt, node } => write!(f, "client {}'s vote is taken back on {node}", attempt.client),
            Self::GiveUp { client } => write!(f, "client {client} gives up"),
        }
    }
}

#[derive(Clone)]
struct World<V> {
    nodes: [V; NODES],
    current: [Attempt; CLIENTS as usize],
}

impl<V: Voter> World<V> {
    fn new() -> Self {
        let nodes = core::array::from_fn(|_| V::new());
        Self { nodes, current: core::array::from_fn(|client| Attempt { client: client as u8, id: false }) }
    }

    /// The nodes that vote for an attempt, with the slot.
    fn votes(&self, attempt: Attempt) -> impl Iterator<Item = (usize, u32)> + '_ {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(move |(node, voter)| {
            let own = voter.standing().into_iter().filter(move |(standing, _)| *standing == attempt);
            own.map(move |(_, slot)| (node, slot))
        })
    }

    /// Whoever has a majority for one slot, and from which nodes.
    fn holders(&self) -> Vec<(u8, u32, Vec<usize>)> {
        let majority = Quorum::new(NODES).expect("it is odd").majority();
        let mut holders = Vec::new();
        for attempt in self.current {
            for slot in 0..PERMITS {
                let nodes: Vec<usize> =
                    self.votes(attempt).filter(|(_, granted)| *granted == slot).map(|(node, _)| node).collect();
                if nodes.len() >= majority {
                    holders.push((attempt.client, slot, nodes));
                }
            }
        }
        holders
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for attempt in self.current {
            let spent = Attempt { id: !attempt.id, ..attempt };
            for node in 0..NODES {
                // A repeat has its slot, wherever it looks.
                let is_repeat = self.votes(attempt).any(|(voted, _)| voted == node);
                let starts = if is_repeat { 1 } else { PERMITS };
                steps.extend((0..starts).map(|start| Step::Ask { attempt, node, start }));
            }
            steps.extend(self.votes(spent).map(|(node, _)| Step::TakeBack { attempt: spent, node }));
            if self.votes(spent).next().is_none() {
                steps.push(Step::GiveUp { client: attempt.client });
            }
        }
        steps
    }

    fn after(&self, step: Step) -> Self {
        let mut world = self.clone();
        match step {
            Step::Ask { attempt, node, start } => world.nodes[node].ask(attempt, start),
            Step::TakeBack { attempt, node } => world.nodes[node].take_back(attempt),
            Step::GiveUp { client } => world.current[usize::from(client)].id ^= true,
        }
        world
    }

    /// What tells one state from another: the nodes are alike, and of the two ids only which one is in use matters.
    fn key(&self) -> Vec<Vec<(u8, bool, u32)>> {
        let spent = |attempt: Attempt| attempt != self.current[usize::from(attempt.client)];
        let of_node = |voter: &V| {
            let mut votes: Vec<_> =
                voter.standing().into_iter().map(|(attempt, slot)| (attempt.client, spent(attempt), slot)).collect();
            votes.sort_unstable();
            votes
        };
        let mut nodes: Vec<_> = self.nodes.iter().map(of_node).collect();
        nodes.sort_unstable();
        nodes
    }
}

/// What an exhaustive search found.
struct Found {
    states: usize,
    most_holders: usize,
    /// The shortest way to more holders than permits, if there is one.
    story: Option<String>,
}

/// A state, with the position of the one that it came from, and how.
type Reached<V> = (World<V>, Option<(usize, Step)>);

fn search<V: Voter>() -> Found {
    let mut seen = BTreeSet::new();
    let mut reached: Vec<Reached<V>> = vec![(World::new(), None)];
    let mut queue = VecDeque::from([0]);
    let mut most_holders = 0;
    seen.insert(reached[0].0.key());
    while let Some(at) = queue.pop_front() {
        let holders = reached[at].0.holders();
        most_holders = most_holders.max(holders.len());
        if holders.len() > PERMITS as usize {
            return Found { states: seen.len(), most_holders, story: Some(tell(&reached, at)) };
        }
        for step in reached[at].0.steps() {
            let world = reached[at].0.after(step);
            if seen.insert(world.key()) {
                queue.push_back(reached.len());
                reached.push((world, Some((at, step))));
            }
        }
        assert!(seen.len() < STATES_MAX, "the search is not bounded");
    }
    Found { states: seen.len(), most_holders, story: None }
}

fn tell<V: Voter>(reached: &[Reached<V>], end: usize) -> String {
    let mut lines: Vec<String> = reached[end]
        .0
        .holders()
        .iter()
        .rev()
        .map(|(client, slot, nodes)| format!("client {client} holds slot {slot} by nodes {nodes:?}"))
        .collect();
    let mut at = end;
    while let Some((from, step)) = reached[at].1 {
        lines.push(step.to_string());
        at = from;
    }
    lines.reverse();
    lines.join("\n")
}

#[test]
fn permits_counted_on_each_node_admit_too_many() {
    let found = search::<Naive>();
    let story = found.story.expect("the checker catches it");
    println!("{PERMITS} permits, {} holders:\n{story}", found.most_holders);
    assert_eq!(found.most_holders, 3, "k * n / majority of them");
    assert_eq!(story.matches(" asks ").count(), 6, "{story}");
    assert_eq!(story.matches(" holds ").count(), 3, "{story}");
}

#[test]
fn slots_never_admit_more_holders_than_permits() {
    let found = search::<Shipped>();
    println!("{} states, at most {} holders", found.states, found.most_holders);
    assert_eq!(found.story, None);
    assert_eq!(found.most_holders, PERMITS as usize, "and all of the permits can be had");
}
