//! Delivery of requests to one node: the queue, the batches in flight, and the owed releases.
//!
//! A connection delivers requests in order. A request that was in flight when its connection ended may still reach the
//! node, much later. Therefore the link *owes* each release: it sends the release again until the node acknowledges it
//! or the vote has expired. A release never overtakes a request of its attempt. If such a request may still arrive, the
//! release leaves a tombstone, so that the node refuses the request.

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::time::Duration;

use hashbrown::HashMap;

use crate::name::LeaseId;
use crate::request::{ENTRY_LEASE, Parting, Request};
use crate::rules::{Rule, Rules};
use crate::time::{Moment, Ttl};
use crate::vote::Vote;

/// The most releases that a link may owe to a node. A link that owes this many accepts no new requests.
pub const OWED_MAX: usize = 65_536;
/// How long a release stays owed after its vote has expired, because a request of the attempt may arrive late.
const OWED_SLACK: Duration = Duration::from_secs(1);

/// A release that the node has not acknowledged.
#[derive(Clone, Debug)]
pub struct Release<T> {
    /// The attempt that is over.
    pub attempt: LeaseId,
    /// The ttl of the attempt's votes.
    pub ttl: Ttl,
    /// Whether the attempt uses the commands of the Redlock page.
    pub is_plain: bool,
    /// What happens to the position in the queue.
    pub parting: Option<Parting>,
    /// Whether other processes may have sent requests for the attempt.
    pub is_foreign: bool,
    /// The sender's data, returned with the acknowledgement.
    pub context: T,
}

#[derive(Clone, Debug)]
struct OwedRelease<T> {
    release: Release<T>,
    /// The moment after which everything that the release would free has expired.
    expires_at: Moment,
    /// The position among the owed releases.
    serial: u64,
    is_resent: bool,
}

/// An element of the queue or of a batch.
#[derive(Clone, Debug, Hash)]
enum Item<T> {
    /// A request for a vote, with its sender's context.
    Ask {
        request: Arc<Request>,
        round: u32,
        context: T,
        /// Whether the request was sent before, to a server that no longer had the name.
        is_resent: bool,
    },
    Release(LeaseId),
}

/// A node's reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The node voted, or acknowledged a release.
    Voted {
        /// The vote.
        vote: Vote,
        /// The time of the node's clock, if the reply has it.
        at_micros: Option<u64>,
    },
    /// The node answered with this error, and may or may not have applied the request.
    Failed(String),
    /// The node did nothing, because another server of its Redis Cluster has the name now. The session must end.
    Moved(String),
}

impl Reply {
    /// Returns whether the node voted in favour; for a release, whether there was a vote to release.
    pub fn is_grant(&self) -> bool {
        matches!(self, Self::Voted { vote: Vote::Grant { .. }, .. })
    }
}

/// A request or release that is complete: its attempt, round and context.
pub type Completion<T> = (LeaseId, u32, T);

/// The requests for one node, from the sender's call to the reply.
#[derive(Clone, Debug)]
pub struct Delivery<T> {
    rules: Rules,
    queue: VecDeque<Item<T>>,
    /// The batches in flight, oldest first: the node answers in this order.
    in_flight: VecDeque<Vec<Item<T>>>,
    /// The owed releases, unordered. Their serial numbers give the order.
    owed: HashMap<LeaseId, OwedRelease<T>>,
    /// The number of releases so far.
    serial: u64,
    /// Releases that the node answered with an error.
    failed_releases: Vec<LeaseId>,
    /// Requests whose names have moved to another server. The next connection sends them once more.
    moved_requests: Vec<Item<T>>,
    /// Whether the node reported a move on the current connection.
    is_moving: bool,
    /// The last round of each lease whose renewal is in the queue.
    renewals: BTreeMap<LeaseId, u32>,
    /// Attempts with a request that may still arrive at the node from a connection that has ended.
    strays: BTreeSet<LeaseId>,
}

impl<T: Clone> Delivery<T> {
    /// Creates an empty delivery.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            owed: HashMap::new(),
            serial: 0,
            failed_releases: Vec::new(),
            moved_requests: Vec::new(),
            is_moving: false,
            renewals: BTreeMap::new(),
            strays: BTreeSet::new(),
        }
    }

    /// Queues a request. `round` is the number of a renewal, and 0 for other requests. [`replied`](Self::replied) later
    /// returns the round and the sender's context. If a renewal of the same lease is already in the queue, that renewal
    /// gets the number of the new round, and no second one is queued: renewals do not pile up for a slow node.
    pub fn ask(&mut self, request: Arc<Request>, round: u32, context: T) {
        if round == 0 || self.renewals.insert(request.attempt(), round).is_none() {
            self.queue.push_back(Item::Ask { request, round, context, is_resent: false });
        }
    }

    /// Queues a release, which stays owed until its acknowledgement or its expiry.
    pub fn release(&mut self, release: Release<T>, now: Moment) {
        let (attempt, expires_at) = (release.attempt, now + (release.ttl.duration() * 2).max(ENTRY_LEASE) + OWED_SLACK);
        self.serial += 1;
        self.owed.insert(attempt, OwedRelease { release, expires_at, serial: self.serial, is_resent: false });
        // Drop the moved requests of this attempt: the node could acknowledge the release before they are sent again.
        self.moved_requests.retain(|item| !item.creates_vote_of(attempt));
        if self.rules.hold(Rule::ReleaseInOrder) {
            self.queue.push_back(Item::Release(attempt));
        } else {
            self.queue.push_front(Item::Release(attempt));
        }
    }

    /// Takes the next batch of at most `max` requests from the queue, in order, passes each to `send`, and returns the
    /// size of the batch. Skips requests of attempts that are over, because their releases follow.
    pub fn drain(&mut self, max: usize, mut send: impl FnMut(Arc<Request>, &T)) -> usize {
        let mut batch = Vec::with_capacity(max.min(self.queue.len()));
        while batch.len() < max {
            let Some(item) = self.queue.pop_front() else { break };
            match item {
                Item::Ask { request, round, context, is_resent } => {
                    let round = self.latest_round(&request, round);
                    if !self.is_over(&request) {
                        send(Arc::clone(&request), &context);
                        batch.push(Item::Ask { request, round, context, is_resent });
                    }
                }
                Item::Release(attempt) => {
                    let Some(owed) = self.owed.get_mut(&attempt) else { continue };
                    let request = owed.request(self.rules, self.strays.contains(&attempt));
                    owed.is_resent = true;
                    send(Arc::new(request), &owed.release.context);
                    batch.push(Item::Release(attempt));
                }
            }
        }
        let size = batch.len();
        if size > 0 {
            self.in_flight.push_back(batch);
        }
        size
    }

    /// Takes the replies to the oldest batch. Returns, for each request of that batch, the sender to notify, if any.
    pub fn replied(&mut self, replies: &[Reply]) -> Vec<Option<Completion<T>>> {
        let batch = self.in_flight.pop_front().unwrap_or_default();
        batch.into_iter().zip(replies).map(|(item, reply)| self.complete(item, reply)).collect()
    }

    /// Handles the reply to one item. Returns the sender to notify, unless the item must be sent again.
    fn complete(&mut self, item: Item<T>, reply: &Reply) -> Option<Completion<T>> {
        match (item, reply) {
            (Item::Ask { request, round, context, is_resent: false }, Reply::Moved(_)) if !self.is_over(&request) => {
                self.is_moving = true;
                self.moved_requests.push(Item::Ask { request, round, context, is_resent: true });
                None
            }
            (Item::Release(attempt), Reply::Voted { .. }) => {
                self.strays.remove(&attempt);
                self.owed.remove(&attempt).map(|owed| (attempt, 0, owed.release.context))
            }
            (Item::Release(attempt), Reply::Failed(_) | Reply::Moved(_)) => {
                self.failed_releases.push(attempt);
                None
            }
            (item, _) => item.completion(),
        }
    }

    /// Starts a new connection. Queues every owed release again, in order, and then, if the node `may_vote`, the
    /// requests whose names have moved.
    pub fn connected(&mut self, may_vote: bool) {
        let mut owed: Vec<(u64, LeaseId)> = self.owed.iter().map(|(attempt, owed)| (owed.serial, *attempt)).collect();
        owed.sort_unstable();
        self.queue = owed.into_iter().map(|(_, attempt)| Item::Release(attempt)).collect();
        if may_vote {
            self.queue.extend(self.moved_requests.drain(..));
        }
    }

    /// Ends the connection. Returns the senders whose requests will get no reply. Releases stay owed, and requests
    /// whose names have moved wait for one more connection.
    pub fn lost(&mut self) -> Vec<Completion<T>> {
        let mut completions = Vec::new();
        for item in core::mem::take(&mut self.in_flight).into_iter().flatten() {
            match item {
                Item::Ask { request, round, context, .. } => {
                    if request.creates_vote() {
                        self.strays.insert(request.attempt());
                    }
                    completions.push((request.attempt(), round, context));
                }
                Item::Release(attempt) if !self.rules.hold(Rule::OweReleases) => drop(self.owed.remove(&attempt)),
                Item::Release(_) => {}
            }
        }
        for item in core::mem::take(&mut self.queue) {
            if let Item::Ask { request, round, context, .. } = item {
                completions.push((request.attempt(), self.latest_round(&request, round), context));
            }
        }
        self.failed_releases.clear();
        if !core::mem::take(&mut self.is_moving) {
            completions.extend(self.moved_requests.drain(..).filter_map(Item::completion));
        }
        completions
    }

    /// Queues again the releases that the node answered with an error.
    pub fn retry_failed(&mut self) {
        self.queue.extend(self.failed_releases.drain(..).map(Item::Release));
    }

    /// Removes expired releases. An expired release stays owed until the client closes if a request of its attempt may
    /// still arrive.
    pub fn forget_expired(&mut self, now: Moment, is_closing: bool) {
        let strays = &self.strays;
        self.owed.retain(|attempt, owed| now < owed.expires_at || strays.contains(attempt) && !is_closing);
    }

    /// Removes an attempt that this client will never release.
    pub fn forget(&mut self, attempt: LeaseId) {
        self.strays.remove(&attempt);
    }

    /// Returns the number of requests and releases in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether a release of this attempt is owed.
    pub fn owes(&self, attempt: LeaseId) -> bool {
        self.owed.contains_key(&attempt)
    }

    /// Returns the number of owed releases.
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Returns the number of attempts with a request that may still arrive from a connection that has ended.
    pub fn strays(&self) -> usize {
        self.strays.len()
    }

    /// Returns whether the request must not be sent any more, because its attempt was released.
    fn is_over(&self, request: &Request) -> bool {
        self.rules.hold(Rule::ReleaseInOrder) && request.creates_vote() && self.owed.contains_key(&request.attempt())
    }

    /// Returns the round of a request that leaves the queue. For a renewal it is the last round that was queued.
    fn latest_round(&mut self, request: &Request, round: u32) -> u32 {
        if round > 0 { self.renewals.remove(&request.attempt()).unwrap_or(round) } else { round }
    }
}

impl<T> Item<T> {
    /// Returns whether this is a request that can create a vote of the attempt.
    fn creates_vote_of(&self, attempt: LeaseId) -> bool {
        matches!(self, Self::Ask { request, .. } if request.creates_vote() && request.attempt() == attempt)
    }

    /// Returns the sender of a request; `None` for a release.
    fn completion(self) -> Option<Completion<T>> {
        match self {
            Self::Ask { request, round, context, .. } => Some((request.attempt(), round, context)),
            Self::Release(_) => None,
        }
    }
}

impl<T> OwedRelease<T> {
    fn request(&self, rules: Rules, is_stray: bool) -> Request {
        let Release { attempt, ttl, parting, is_foreign, .. } = self.release;
        if self.release.is_plain {
            return Request::PlainRelease { attempt };
        }
        // When a yield is sent again, its waiter may have left the queue and must not return. If the waiter is still
        // in the queue, the waiter must not get a handoff for this attempt.
        let is_late_yield = self.is_resent && matches!(parting, Some(Parting::Yield(_)));
        let leaves_tombstone = (is_stray || is_foreign || is_late_yield) && rules.hold(Rule::LeaveTombstones);
        Request::Release {
            attempt,
            tombstone: leaves_tombstone.then(|| ttl.as_millis() * 2),
            parting: parting.filter(|_| !is_late_yield),
        }
    }
}

/// Omits times and serial numbers: two deliveries that behave alike until a release expires have the same hash.
impl<T: Hash> Hash for Delivery<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut owed: Vec<&OwedRelease<T>> = self.owed.values().collect();
        owed.sort_unstable_by_key(|owed| owed.serial);
        for OwedRelease { release, is_resent, .. } in owed {
            (release.attempt, release.parting, release.is_foreign, &release.context, is_resent).hash(state);
        }
        (&self.queue, &self.in_flight, &self.failed_releases, &self.moved_requests, self.is_moving).hash(state);
        (&self.renewals, &self.strays).hash(state);
    }
}
