//! What a link has to send, and the releases that it owes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorlock_core::name::LeaseId;
use quorlock_core::ticket::{ENTRY_LEASE, Parting};
use quorlock_core::time::{Moment, Ttl};
use quorlock_core::vote::{Request, Silence};

use crate::link::Voter;
use crate::link::mark::Mark;
use crate::node::key::LockKey;
use crate::node::{Life, Message, Reply, Trouble};

/// The most releases that a link keeps. One that owes so many takes on no new requests.
pub(crate) const OWED_MAX: usize = 65_536;
/// The most requests in one batch: enough for what a batch costs to be little against what its requests do, and few enough
/// for a batch to be answered, and dealt with here, while the node works on the next.
pub(crate) const BATCH_MAX: usize = 128;
/// How long after its attempt's ttl a release is still kept, for requests that were slow to arrive.
const OWED_SLACK: Duration = Duration::from_secs(1);

/// A link's shared state, under its mutex.
pub(crate) struct Outbox {
    pub(crate) state: LinkState,
    /// Since when the node cannot be asked.
    pub(crate) down_since: Option<Moment>,
    queue: VecDeque<Item>,
    /// In no order: their serials tell it.
    owed: HashMap<LeaseId, Owed>,
    /// How many releases have been owed so far.
    serial: u64,
    /// Releases that were answered with an error: to be sent again after a while.
    failed: Vec<LeaseId>,
    /// Requests that were not carried out because their names have moved: sent once more on the next connection.
    moved: Vec<Ask>,
    /// The connection on which they were answered has not ended yet.
    is_moving: bool,
    pub(crate) closing: bool,
}

/// Whether the node can be asked.
pub(crate) enum LinkState {
    /// The first contact has had no result yet.
    Connecting,
    /// The connection has shaken hands with a node that may vote.
    Up(Life),
    Down(Silence),
    /// An operator has to change something before the node can be used.
    Refused(Trouble),
    /// The link's task has ended.
    Ended,
}

impl LinkState {
    /// Why the node cannot be asked; `None` when it can.
    pub(super) fn trouble(&self) -> Option<Silence> {
        match self {
            Self::Up(_) => None,
            Self::Down(why) => Some(why.clone()),
            Self::Refused(trouble) => Some(trouble.as_silence()),
            Self::Connecting => Some(Silence::Unreachable("not connected yet".into())),
            Self::Ended => Some(Silence::Unreachable("the client was closed".into())),
        }
    }
}

enum Item {
    Ask(Ask),
    Release(LeaseId),
}

/// A request that wants a vote.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) mark: Arc<Mark>,
    pub(crate) key: Arc<LockKey>,
    pub(crate) request: Arc<Request>,
    pub(crate) voter: Arc<dyn Voter>,
    /// Which renewal of a lease it is for; 0 where it is none.
    pub(crate) round: u32,
    /// Whether it was sent before, to a server that no longer had the name.
    pub(crate) is_resent: bool,
}

impl Ask {
    /// It leaves the queue: a renewal that has waited there is for the last round by now.
    fn leave_queue(&mut self, node: usize) {
        if self.round > 0 {
            self.round = self.mark.take_renewal(node);
        }
    }

    /// Whether it may put its waiter in the queue.
    pub(crate) fn queues(&self) -> bool {
        matches!(&*self.request, Request::Acquire { waiter: Some(_), .. })
    }
}

/// An attempt whose votes are taken back, for all nodes.
pub(crate) struct GiveBack {
    pub(crate) mark: Arc<Mark>,
    key: Arc<LockKey>,
    plain: bool,
    ttl: Ttl,
    /// After this, whatever it would free has lapsed by itself.
    lapses: Moment,
    /// What is sent where nothing special has happened.
    farewell: Arc<Request>,
}

impl GiveBack {
    pub(crate) fn new(mark: &Arc<Mark>, key: &Arc<LockKey>, ttl: Ttl, plain: bool, now: Moment) -> Arc<Self> {
        let attempt = mark.attempt;
        let farewell = if plain {
            Request::PlainRelease { attempt }
        } else {
            Request::Release { attempt, tombstone: None, parting: None }
        };
        Arc::new(Self {
            mark: Arc::clone(mark),
            key: Arc::clone(key),
            plain,
            ttl,
            lapses: now + (ttl.duration() * 2).max(ENTRY_LEASE) + OWED_SLACK,
            farewell: Arc::new(farewell),
        })
    }
}

/// A release that has not been acknowledged.
pub(crate) struct Owed {
    pub(crate) back: Arc<GiveBack>,
    pub(crate) voter: Option<Arc<dyn Voter>>,
    /// What becomes of the place in the queue.
    pub(crate) parting: Option<Parting>,
    /// Its place among those that are owed.
    pub(crate) serial: u64,
    /// Whether it has been sent before.
    pub(crate) tried: bool,
}

/// A message that was sent, and who waits for the answer.
pub(crate) enum Sent {
    Ask(Ask),
    Release {
        attempt: LeaseId,
        /// Once it is [settled](Outbox::settle): until then it is kept with the release.
        voter: Option<Arc<dyn Voter>>,
    },
}

impl Outbox {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            state: LinkState::Connecting,
            down_since: Some(now),
            queue: VecDeque::new(),
            owed: HashMap::new(),
            serial: 0,
            failed: Vec::new(),
            moved: Vec::new(),
            is_moving: false,
            closing: false,
        }
    }

    /// Another reason for the same outage does not start it anew.
    pub(crate) fn set_state(&mut self, state: LinkState, now: Moment) {
        self.down_since = if let LinkState::Up(_) = state { None } else { self.down_since.or(Some(now)) };
        self.state = state;
    }

    /// Queues a request, if the node can be asked.
    ///
    /// Of a lease's renewals one at most waits here: where they take longer than a round, the next would be one more to
    /// wait for, and so on.
    pub(crate) fn ask(&mut self, node: usize, ask: Ask) -> Result<(), Silence> {
        if let Some(why) = self.state.trouble() {
            return Err(why);
        }
        if self.closing {
            return Err(Silence::Unreachable("the client was closed".into()));
        }
        if self.owed.len() >= OWED_MAX {
            return Err(Silence::Owing);
        }
        if ask.round == 0 || ask.mark.queue_renewal(node) {
            self.queue.push_back(Item::Ask(ask));
        }
        Ok(())
    }

    /// Owes a release, from now until it is acknowledged or lapsed.
    pub(crate) fn owe(&mut self, owed: Owed) {
        let attempt = owed.back.mark.attempt;
        self.serial += 1;
        self.owed.insert(attempt, Owed { serial: self.serial, ..owed });
        self.queue.push_back(Item::Release(attempt));
    }

    /// Takes the next batch, in order. Requests of attempts that are over are dropped here: nothing of them has left.
    pub(crate) fn drain(&mut self, node: usize) -> (Vec<Message>, Vec<Sent>) {
        let most = self.queue.len().min(BATCH_MAX);
        let (mut messages, mut sent) = (Vec::with_capacity(most), Vec::with_capacity(most));
        while messages.len() < BATCH_MAX {
            match self.queue.pop_front() {
                None => break,
                Some(Item::Ask(ask)) if ask.mark.is_done() || ask.queues() && ask.mark.has_left() => {}
                Some(Item::Ask(mut ask)) => {
                    ask.leave_queue(node);
                    ask.mark.set_sent(node);
                    if ask.queues() {
                        ask.mark.set_placed(node);
                    }
                    messages.push(Message { key: Arc::clone(&ask.key), request: Arc::clone(&ask.request) });
                    sent.push(Sent::Ask(ask));
                }
                Some(Item::Release(attempt)) => {
                    let Some(owed) = self.owed.get_mut(&attempt) else { continue };
                    messages.push(owed.message(node));
                    owed.tried = true;
                    sent.push(Sent::Release { attempt, voter: None });
                }
            }
        }
        (messages, sent)
    }

    /// Releases of a batch were acknowledged: those who wait for that are found with them. One that was answered with an
    /// error stays owed, and is sent again after a while. Whether any was acknowledged.
    pub(crate) fn settle(&mut self, sent: &mut [Sent], replies: &[Reply]) -> bool {
        let mut is_any = false;
        for (sent, reply) in sent.iter_mut().zip(replies) {
            let Sent::Release { attempt, voter } = sent else { continue };
            match reply {
                Reply::Voted { .. } => {
                    is_any = true;
                    *voter = self.owed.remove(attempt).and_then(|owed| owed.voter);
                }
                Reply::Failed(_) | Reply::Moved(_) => self.failed.push(*attempt),
            }
        }
        is_any
    }

    /// Queues every release that is owed once more, and forgets those that have lapsed. They go before everything else, in
    /// their order: a place that one of them keeps must not come back behind the request that took it out of the queue.
    ///
    /// A request that may still be under way to a node that does not answer lapses only after it has arrived: as long as
    /// the client lives, its release is kept.
    pub(crate) fn owe_again(&mut self, node: usize, now: Moment) {
        let closing = self.closing;
        self.owed.retain(|_, owed| owed.is_wanted(node, now, closing));
        self.failed.clear();
        let mut owed: Vec<(u64, LeaseId)> = self.owed.iter().map(|(attempt, owed)| (owed.serial, *attempt)).collect();
        owed.sort_unstable();
        let asks = std::mem::take(&mut self.queue).into_iter().filter(|item| matches!(item, Item::Ask(_)));
        self.queue = owed.into_iter().map(|(_, attempt)| Item::Release(attempt)).chain(asks).collect();
    }

    /// Queues those releases once more that were answered with an error, and forgets those that have lapsed: one that
    /// fails for ever is not sent for ever.
    pub(crate) fn owe_failed(&mut self, node: usize, now: Moment) {
        for attempt in std::mem::take(&mut self.failed) {
            if self.owed.get(&attempt).is_some_and(|owed| owed.is_wanted(node, now, self.closing)) {
                self.queue.push_back(Item::Release(attempt));
            } else {
                self.owed.remove(&attempt);
            }
        }
    }

    /// Keeps a request for the next connection. It comes back if it was kept before.
    pub(crate) fn keep_moved(&mut self, ask: Ask) -> Option<Ask> {
        if ask.is_resent {
            return Some(ask);
        }
        self.is_moving = true;
        self.moved.push(Ask { is_resent: true, ..ask });
        None
    }

    /// Queues the requests whose names have moved, before those that came later.
    pub(crate) fn send_moved(&mut self) {
        for ask in std::mem::take(&mut self.moved).into_iter().rev() {
            self.queue.push_front(Item::Ask(ask));
        }
    }

    /// Takes out the requests that were never sent; releases stay owed. Those whose names have moved wait for one more
    /// connection.
    pub(crate) fn abandon(&mut self, node: usize) -> Vec<Ask> {
        let queue = std::mem::take(&mut self.queue);
        let ask = |item| if let Item::Ask(ask) = item { Some(ask) } else { None };
        let mut asks: Vec<Ask> = queue.into_iter().filter_map(ask).collect();
        for ask in &mut asks {
            ask.leave_queue(node);
        }
        if !std::mem::take(&mut self.is_moving) {
            asks.append(&mut self.moved);
        }
        asks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How much waits to be sent.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn owed(&self) -> usize {
        self.owed.len()
    }
}

impl Owed {
    /// Whether there may be something left to take back.
    fn is_wanted(&self, node: usize, now: Moment, closing: bool) -> bool {
        now < self.back.lapses || self.back.mark.is_stray(node) && !closing
    }

    fn message(&self, node: usize) -> Message {
        let GiveBack { mark, key, plain, ttl, farewell, .. } = &*self.back;
        // Something of this attempt may still arrive, behind this: leave a note that it is over.
        let may_arrive = mark.is_stray(node) || mark.is_of_another();
        // By the time that it is sent once more, the waiter may have left: its place is not to come back. If it is
        // still there, it must not be given a vote for this attempt.
        let unyielded = self.tried && matches!(self.parting, Some(Parting::Yield(_)));
        let parting = self.parting.filter(|_| !unyielded);
        let tombstone = (may_arrive || unyielded).then(|| ttl.as_millis() * 2);
        let request = if *plain || (tombstone, parting) == (None, None) {
            Arc::clone(farewell)
        } else {
            Arc::new(Request::Release { attempt: mark.attempt, tombstone, parting })
        };
        Message { key: Arc::clone(key), request }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::name::Name;

    use crate::node::key::KeyTemplate;
    use crate::platform::clock;

    /// How many messages there are to send, each of which is answered with an error.
    fn fail_all(outbox: &mut Outbox) -> usize {
        let (messages, mut sent) = outbox.drain(0);
        let replies = vec![Reply::Failed("no".into()); messages.len()];
        assert!(!outbox.settle(&mut sent, &replies));
        messages.len()
    }

    fn key() -> Arc<LockKey> {
        let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
        Arc::new(template.key(&Name::new("job").unwrap()).unwrap())
    }

    fn ttl() -> Ttl {
        Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap()
    }

    struct Nobody;

    impl Voter for Nobody {
        fn vote(self: Arc<Self>, _: usize, _: LeaseId, _: u32, _: quorlock_core::vote::Outcome, _: Moment) {}
    }

    /// Begins a renewal of this lease, and queues it.
    fn renew(outbox: &mut Outbox, mark: &Arc<Mark>, round: u32) {
        let request = Arc::new(Request::PlainExtend { attempt: mark.attempt, ttl: ttl() });
        mark.begin_renewal(round);
        let ask = Ask { mark: Arc::clone(mark), key: key(), request, voter: Arc::new(Nobody), round, is_resent: false };
        outbox.ask(0, ask).unwrap();
    }

    fn up() -> Outbox {
        let mut outbox = Outbox::new(clock::now());
        let life = Life { epoch: quorlock_core::node::Epoch(1), floor: quorlock_core::fence::Fence::new(1) };
        outbox.set_state(LinkState::Up(life), clock::now());
        outbox
    }

    /// The rounds of what is sent next.
    fn rounds(outbox: &mut Outbox) -> Vec<u32> {
        let (_, sent) = outbox.drain(0);
        sent.iter().map(|sent| if let Sent::Ask(ask) = sent { ask.round } else { 0 }).collect()
    }

    #[test]
    fn a_renewal_that_waits_to_be_sent_is_the_only_one_and_for_the_last_round() {
        let (mut outbox, mark) = (up(), Arc::new(Mark::new(LeaseId::from_bits(1))));
        let other = Arc::new(Mark::new(LeaseId::from_bits(2)));
        renew(&mut outbox, &mark, 1);
        renew(&mut outbox, &other, 7);
        renew(&mut outbox, &mark, 2);
        renew(&mut outbox, &mark, 3);
        assert_eq!(rounds(&mut outbox), [3, 7]);
        renew(&mut outbox, &mark, 4);
        assert_eq!(rounds(&mut outbox), [4], "the one before has left");
    }

    #[test]
    fn a_renewal_that_was_never_sent_does_not_stand_in_for_the_next() {
        let (mut outbox, mark) = (up(), Arc::new(Mark::new(LeaseId::from_bits(1))));
        renew(&mut outbox, &mark, 1);
        renew(&mut outbox, &mark, 2);
        assert_eq!(outbox.abandon(0).iter().map(|ask| ask.round).collect::<Vec<_>>(), [2], "whoever waits is told");
        renew(&mut outbox, &mark, 3);
        assert_eq!(rounds(&mut outbox), [3]);
    }

    #[test]
    fn a_release_that_fails_is_sent_again_until_it_has_lapsed() {
        let (key, ttl) = (key(), ttl());
        let (mut outbox, now) = (Outbox::new(clock::now()), clock::now());
        let back = GiveBack::new(&Arc::new(Mark::new(LeaseId::from_bits(1))), &key, ttl, false, now);
        outbox.owe(Owed { back, voter: None, parting: None, serial: 0, tried: false });
        assert_eq!((fail_all(&mut outbox), outbox.owed()), (1, 1));
        outbox.owe_failed(0, now);
        assert_eq!((fail_all(&mut outbox), outbox.owed()), (1, 1));
        outbox.owe_failed(0, now + Duration::from_secs(60));
        assert_eq!((fail_all(&mut outbox), outbox.owed()), (0, 0));
    }
}
