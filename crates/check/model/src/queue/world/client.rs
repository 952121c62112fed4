//! A client: its state machine, and its messages in flight to and from each node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::acquire::Acquire;
use quorlock_core::backoff::Retry;
use quorlock_core::hold::{Hold, Step};
use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::nodes::NodeSet;
use quorlock_core::quorum::{Electors, Quorum};
use quorlock_core::request::{Parting, Request};
use quorlock_core::rng::{Rng, Seeded};
use quorlock_core::rules::Rules;
use quorlock_core::terms::{Mode, Renewals, Terms};
use quorlock_core::time::{Drift, Moment, Ttl};
use quorlock_core::vote::{Handoff, Outcome};

use super::{TTL, World};

/// The messages in flight between a client and a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The requests with their send times.
    pub(super) requests: VecDeque<(Request, Moment)>,
    pub(super) replies: VecDeque<Message>,
    pub(super) hints: u32,
}

/// A message from a node that stays in order: a reply or a handoff.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Vote(LeaseId, Outcome),
    Handoff(Handoff),
}

/// A generator of unique numbers, which are the same in every search. Without a seed the numbers are small, so a random
/// delay that is computed from such a number has its shortest length.
#[derive(Clone, Debug)]
pub(super) struct FixedRng {
    seed: Option<u64>,
    next: u64,
}

impl Rng for FixedRng {
    fn bits(&mut self) -> u64 {
        self.next += 1;
        self.seed.map_or(self.next, |seed| Seeded::new(seed ^ self.next).bits())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) machine: Acquire,
    pub(super) rng: FixedRng,
    pub(super) links: Vec<Link>,
    pub(super) hold: Option<Hold>,
    pub(super) is_served: bool,
    pub(super) is_dead: bool,
}

impl Client {
    pub(super) fn new(
        index: usize,
        mode: Mode,
        is_waiter: bool,
        nodes: usize,
        rules: Rules,
        seed: Option<u64>,
    ) -> Self {
        let quorum = Quorum::new(nodes).expect("a number of nodes that can decide");
        let ttl = Ttl::new(TTL, TTL).expect("a ttl within its bounds");
        let terms = Terms {
            electors: Arc::new(Electors::all(quorum)),
            ttl,
            drift: Drift::default().of(ttl),
            min_validity: TTL / 2,
            node_deadline: Duration::from_millis(200),
            retry: Retry::default(),
            give_up: None,
            channel: is_waiter.then_some(Channel(index as u128)),
            plain: false,
            mode,
            holder: format!("{index} host test").into(),
            renewals: Renewals::Off,
            trusting: false,
            rules,
        };
        let mut rng = FixedRng { seed, next: (index as u64) << 32 };
        Self {
            machine: Acquire::new(terms, &mut rng),
            rng,
            links: vec![Link::default(); nodes],
            hold: None,
            is_served: false,
            is_dead: false,
        }
    }
}

impl World {
    pub(super) fn perform(&mut self, index: usize, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Ask { nodes, request, .. } => {
                    let serial = self.attempts.values().filter(|(client, _)| *client == index).count();
                    self.attempts.entry(request.attempt()).or_insert((index, serial));
                    self.requests_sent[index] += nodes.len();
                    for node in nodes.iter() {
                        self.clients[index].links[node].requests.push_back((request.clone(), self.now));
                    }
                }
                Step::Release { attempt, nodes, parting } => self.release(index, attempt, nodes, parting),
                Step::Waits(_) => {}
                Step::Won { hold, .. } => {
                    let fence = hold.fence().expect("a lock that is not plain has a fence");
                    let client = &mut self.clients[index];
                    (client.hold, client.is_served) = (Some(hold), true);
                    self.check_win(index, fence);
                }
                other => panic!("client {index}: {other:?}"),
            }
        }
    }

    pub(super) fn release(&mut self, index: usize, attempt: LeaseId, nodes: NodeSet, parting: Option<Parting>) {
        for node in nodes.iter() {
            let request = Request::Release { attempt, tombstone: None, parting };
            self.clients[index].links[node].requests.push_back((request, self.now));
        }
    }
}
