//! Nodes and clients as they ship, with the network and the time in the hands of a test.
//!
//! Every node is a record with the rules of `node::apply`, every client an `Acquire` machine. Between a client and a
//! node there is a link, ordered in both directions; hints travel apart from it. Nothing moves by itself: a test, or a
//! search, says what is delivered next, what gets lost, and when time passes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorlock_core::acquire::{Acquire, Plan, Step, Won};
use quorlock_core::digest::Digest;
use quorlock_core::fence::Fence;
use quorlock_core::mode::Mode;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Constants, Epoch, Incarnation, NodeTime, Place, Record, apply, hand_on};
use quorlock_core::quorum::Quorum;
use quorlock_core::retry::{Dice, Retry};
use quorlock_core::rules::Rules;
use quorlock_core::ticket::{Channel, Handoff, Parting};
use quorlock_core::time::{Drift, Moment, Ttl};
use quorlock_core::vote::{Outcome, Request, Vote};

const EPOCH: Epoch = Epoch(1);
/// The nodes' clocks when ours begins, in milliseconds.
const CLOCK: u64 = 1_000_000;
/// The ttl of every lease.
pub const TTL: Duration = Duration::from_secs(10);

/// What is wrong with this world.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each may be wrong by itself")]
pub struct Flaws {
    /// The clients do not keep all rules.
    pub rules: Rules,
    /// Nodes vote for anyone when they are free, whoever waits.
    pub headless: bool,
    /// Nodes hint the yielder of its own vote.
    pub self_waking: bool,
    /// Hints get lost, and votes that are handed on.
    pub deaf: bool,
    /// Nodes go on with the request of one who has yielded.
    pub unyielding: bool,
    /// Nodes hand no votes on: whoever is told has to ask. Not a flaw of nodes that cannot.
    pub empty_handed: bool,
    /// This node does not answer.
    pub down: Option<usize>,
}

/// Something that can happen next: a client and, but for the last two, a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client's next request reaches the node.
    Request(usize, usize),
    /// The node's next answer reaches the client.
    Reply(usize, usize),
    /// The node's hint reaches the client.
    Hint(usize, usize),
    /// The client is called, as it asked to be.
    Tick(usize),
    /// The holder is done.
    Free(usize),
}

#[derive(Clone, Debug, Default)]
struct Link {
    requests: VecDeque<(Request, Moment)>,
    replies: VecDeque<Message>,
    hints: u32,
}

/// What comes back over a link, in its order.
#[derive(Clone, Debug)]
enum Message {
    Vote(LeaseId, Outcome),
    Handoff(Handoff),
}

#[derive(Clone, Debug)]
struct Thrown {
    seed: Option<u64>,
    next: u64,
}

impl Dice for Thrown {
    // Never the same twice, and the same in every run. Without a seed every delay is the shortest one.
    fn bits(&mut self) -> u64 {
        self.next += 1;
        let Some(seed) = self.seed else { return self.next };
        let mixed = (seed ^ self.next).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    }
}

#[derive(Clone, Debug)]
struct Client {
    machine: Acquire,
    dice: Thrown,
    links: Vec<Link>,
    wake: Option<Moment>,
    won: Option<Won>,
    is_served: bool,
    is_dead: bool,
}

/// Nodes, clients, and what is under way between them.
#[derive(Clone, Debug)]
pub struct World {
    now: Moment,
    life: Incarnation,
    records: Vec<Record>,
    clients: Vec<Client>,
    flaws: Flaws,
    /// Whose an attempt is, and the how-manieth.
    attempts: BTreeMap<LeaseId, (usize, usize)>,
    fences: Vec<Fence>,
    /// How many requests each client has sent to one node or another, releases left out.
    pub asked: Vec<usize>,
}

impl World {
    /// Clients that want the lock in these ways. All have asked and drawn their tickets, in this order; nothing has arrived.
    ///
    /// # Panics
    /// If so many nodes cannot decide anything.
    pub fn new(nodes: usize, modes: &[Mode], waits: bool, flaws: Flaws, seed: Option<u64>) -> Self {
        let quorum = Quorum::new(nodes).expect("a number of nodes that can decide");
        let constants = Constants { cluster: "c1".into(), nodes, max_ttl_millis: 60_000, sigma_micros: 10_000_000 };
        let life = Incarnation {
            run: "run1".into(),
            epoch: Some(EPOCH),
            floor: Some(Fence::default()),
            quarantine_micros: 66_000_000,
            suspended: false,
            witnessed_micros: 0,
            witness: None,
            constants,
            founders: String::new(),
            restarts: 0,
        };
        let client = |(index, mode): (usize, &Mode)| {
            let plan = Plan {
                quorum,
                ttl: Ttl::new(TTL, TTL).expect("a ttl within its bounds"),
                drift: Drift::default(),
                min_validity: TTL / 2,
                node_deadline: Duration::from_millis(200),
                retry: Retry::default(),
                give_up: None,
                line: waits.then_some(Channel(index as u128)),
                plain: false,
                mode: *mode,
                holder: format!("{index} host test"),
                rules: flaws.rules,
            };
            Client {
                machine: Acquire::new(plan),
                dice: Thrown { seed, next: (index as u64) << 32 },
                links: vec![Link::default(); nodes],
                wake: None,
                won: None,
                is_served: false,
                is_dead: false,
            }
        };
        let mut world = Self {
            now: Moment::from_nanos(0),
            life,
            records: vec![Record::default(); nodes],
            clients: modes.iter().enumerate().map(client).collect(),
            flaws,
            attempts: BTreeMap::new(),
            fences: Vec::new(),
            asked: vec![0; modes.len()],
        };
        for index in 0..modes.len() {
            // Nobody draws a ticket in the same microsecond as another.
            world.now = Moment::from_nanos(index as u64 * 1_000);
            world.act(Action::Tick(index));
        }
        world
    }

    /// Everything that can happen next without time passing.
    pub fn enabled(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            for (node, link) in client.links.iter().enumerate() {
                let is_up = self.flaws.down != Some(node);
                actions.extend((is_up && !link.requests.is_empty()).then_some(Action::Request(index, node)));
                actions.extend((!link.replies.is_empty()).then_some(Action::Reply(index, node)));
                actions.extend((link.hints > 0).then_some(Action::Hint(index, node)));
            }
            actions.extend(client.wake.is_some_and(|at| at <= self.now).then_some(Action::Tick(index)));
            actions.extend(client.won.is_some().then_some(Action::Free(index)));
        }
        actions
    }

    /// A release that can reach its node now.
    pub fn release_under_way(&self) -> Option<Action> {
        self.enabled().into_iter().find(|action| match action {
            Action::Request(index, node) => {
                self.clients[*index].links[*node].requests.front().is_some_and(|(request, _)| !request.may_grant())
            }
            _ => false,
        })
    }

    /// Lets it happen, if it can.
    pub fn act(&mut self, action: Action) {
        let (now, micros) = (self.now, i64::try_from(self.node_time().wall_micros).ok());
        match action {
            Action::Request(index, node) => self.deliver(index, node),
            Action::Reply(index, node) => {
                let client = &mut self.clients[index];
                if let Some(message) = client.links[node].replies.pop_front() {
                    let (machine, dice) = (&mut client.machine, &mut client.dice);
                    let steps = match message {
                        Message::Vote(attempt, outcome) => machine.take(attempt, node, outcome, now, dice),
                        Message::Handoff(handoff) => machine.take_handoff(node, handoff, now, micros, dice),
                    };
                    self.carry_out(index, steps);
                }
            }
            Action::Hint(index, node) => {
                let client = &mut self.clients[index];
                client.links[node].hints -= 1;
                let steps = client.machine.hint(node, now, micros);
                self.carry_out(index, steps);
            }
            Action::Tick(index) => {
                let client = &mut self.clients[index];
                client.wake = None;
                let steps = client.machine.tick(now, micros, &mut client.dice);
                self.carry_out(index, steps);
            }
            Action::Free(index) => {
                if let Some(won) = self.clients[index].won.take() {
                    let nodes = (0..self.records.len()).collect();
                    self.release(index, won.attempt, nodes, won.waiter.map(Parting::Leave));
                }
            }
        }
    }

    /// Nothing is under way: time passes until a client has to be called, but no longer than anyone may hold.
    /// Whether anything is left to wait for.
    pub fn pass_time(&mut self) -> bool {
        let ends = self.clients.iter().flat_map(|client| [client.wake, client.won.as_ref().map(|won| won.valid_until)]);
        let Some(next) = ends.flatten().min() else { return false };
        self.now = self.now.max(next);
        for index in 0..self.clients.len() {
            if self.clients[index].won.as_ref().is_some_and(|won| won.valid_until <= self.now) {
                self.act(Action::Free(index));
            }
        }
        true
    }

    /// Delivers all there is, first come, first served, until nothing is under way. Holders go on holding.
    pub fn settle(&mut self) {
        loop {
            let actions = self.enabled();
            let mut moved = false;
            for action in actions.into_iter().filter(|action| !matches!(action, Action::Free(_))) {
                moved = true;
                // An earlier action of this round may have used it up.
                if self.enabled().contains(&action) {
                    self.act(action);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// A request reaches its node, and the answer comes back at once, behind what the node has said before.
    pub fn exchange(&mut self, index: usize, node: usize) {
        self.act(Action::Request(index, node));
        while !self.clients[index].links[node].replies.is_empty() {
            self.act(Action::Reply(index, node));
        }
    }

    /// Releases that would change nothing arrive at once: they commute with all else that can happen.
    pub fn drop_idle_releases(&mut self) {
        for index in 0..self.clients.len() {
            for node in 0..self.records.len() {
                let is_up = self.flaws.down != Some(node);
                while is_up && self.is_idle_release(index, node) {
                    self.clients[index].links[node].requests.pop_front();
                }
            }
        }
    }

    /// All that the client has under way arrives.
    pub fn drain(&mut self, index: usize) {
        let down = self.flaws.down;
        for node in (0..self.records.len()).filter(|node| down != Some(*node)) {
            while !self.clients[index].links[node].requests.is_empty() {
                self.exchange(index, node);
            }
        }
    }

    fn is_idle_release(&self, index: usize, node: usize) -> bool {
        let record = &self.records[node];
        let Some((Request::Release { attempt, parting, .. }, _)) = self.clients[index].links[node].requests.front()
        else {
            return false;
        };
        let place = |ticket| record.line.iter().find(|place| place.waiter.ticket == ticket);
        let parts = match parting {
            Some(Parting::Leave(waiter)) => place(waiter.ticket).is_some(),
            Some(Parting::Yield(waiter)) => place(waiter.ticket).is_some_and(|place| place.request.is_some()),
            None => false,
        };
        let is_own = record.vote.as_ref().is_some_and(|vote| vote.attempt == *attempt)
            || record.entries.iter().any(|entry| entry.attempt == *attempt);
        !parts && !is_own
    }

    /// The next request is lost, or the answer to it. A link keeps its releases until they are acknowledged.
    pub fn lose(&mut self, action: Action) -> bool {
        match action {
            Action::Request(index, node) => {
                let requests = &mut self.clients[index].links[node].requests;
                let is_lost = requests.front().is_some_and(|(request, _)| request.may_grant());
                if is_lost {
                    requests.pop_front();
                }
                is_lost
            }
            Action::Reply(index, node) => self.clients[index].links[node].replies.pop_front().is_some(),
            Action::Hint(index, node) => {
                self.clients[index].links[node].hints -= 1;
                true
            }
            Action::Tick(_) | Action::Free(_) => false,
        }
    }

    /// The client is gone, with all that it had not sent yet.
    pub fn kill(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.links.iter_mut().for_each(|link| *link = Link::default());
        (client.wake, client.won, client.is_dead) = (None, None, true);
    }

    /// A node forgets a place in line.
    pub fn forget_place(&mut self, node: usize, at: usize) {
        let line = &mut self.records[node].line;
        if !line.is_empty() {
            line.remove(at % line.len());
        }
    }

    /// Who holds.
    pub fn holders(&self) -> Vec<usize> {
        (0..self.clients.len()).filter(|index| self.clients[*index].won.is_some()).collect()
    }

    /// Who is still alive and has never had it.
    pub fn unserved(&self) -> Vec<usize> {
        let is_unserved = |index: &usize| !self.clients[*index].is_served && !self.clients[*index].is_dead;
        (0..self.clients.len()).filter(is_unserved).collect()
    }

    /// Whose vote stands on each node.
    pub fn votes(&self) -> Vec<Option<usize>> {
        let voter = |record: &Record| record.vote.as_ref().and_then(|vote| self.attempts.get(&vote.attempt));
        self.records.iter().map(|record| voter(record).map(|(client, _)| *client)).collect()
    }

    /// How many attempts the client has begun that has begun most of them.
    pub fn attempts_most(&self) -> usize {
        self.attempts.values().map(|(_, serial)| serial + 1).max().unwrap_or_default()
    }

    /// How many seconds have passed.
    pub fn seconds(&self) -> f64 {
        self.now.as_nanos() as f64 / 1e9
    }

    /// All that matters for what can happen next, as text. Attempts, which `Debug` keeps secret, are told apart by whose
    /// they are and how many that client has begun since; fences by their order and by how near they are to each other.
    /// Dice are left out: without a seed they decide nothing.
    pub fn key(&self) -> String {
        use std::fmt::Write as _;
        let mut begun = vec![0; self.clients.len()];
        self.attempts.values().for_each(|(client, serial)| begun[*client] = begun[*client].max(*serial));
        let name =
            |attempt: &LeaseId| self.attempts.get(attempt).map(|(client, serial)| (client, begun[*client] - serial));
        let mut key = format!("{:?}{:?}", self.now, self.fences);
        for record in &self.records {
            let votes = record.vote.as_ref().map(|vote| (name(&vote.attempt), vote.until));
            let mut entries: Vec<_> =
                record.entries.iter().map(|entry| (name(&entry.attempt), entry.slot, entry.until)).collect();
            entries.sort_unstable();
            let fence = record.fence.as_ref().map(|note| (note.fence, note.ticket));
            let kept = |place: &Place| {
                place.request.as_ref().map(|request| (name(&request.attempt), request.proposal, request.ttl))
            };
            let line: Vec<_> =
                record.line.iter().map(|place| (place.waiter.channel, place.until, kept(place))).collect();
            let _ = write!(key, "|{votes:?}{entries:?}{fence:?}{line:?}");
        }
        for client in &self.clients {
            let _ = write!(key, "|{:?}{:?}", client.machine, client.won.as_ref().map(|won| (won.mode, won.fence)));
            for link in &client.links {
                let _ = write!(key, "/{}", link.hints);
                for (request, sent) in &link.requests {
                    let _ = write!(key, "{:?}{sent:?}{request:?}", name(&request.attempt()));
                }
                for message in &link.replies {
                    let _ = match message {
                        Message::Vote(attempt, outcome) => write!(key, "{:?}{outcome:?}", name(attempt)),
                        Message::Handoff(Handoff { attempt, fence }) => {
                            let of = self.attempts.keys().find(|of| Digest::of(**of) == *attempt).and_then(name);
                            write!(key, "{of:?}{fence:?}")
                        }
                    };
                }
            }
        }
        by_order(&key)
    }

    fn node_time(&self) -> NodeTime {
        NodeTime::wall(CLOCK * 1_000 + self.now.as_nanos() / 1_000)
    }

    fn deliver(&mut self, index: usize, node: usize) {
        let now = self.node_time();
        let Some((request, sent)) = self.clients[index].links[node].requests.pop_front() else { return };
        let record = &mut self.records[node];
        let line = if self.flaws.headless && request.may_grant() {
            record.lapse(now);
            if record.vote.is_none() { std::mem::take(&mut record.line) } else { Vec::new() }
        } else {
            Vec::new()
        };
        let yields = match &request {
            Request::Release { parting: Some(Parting::Yield(waiter)), .. } if self.flaws.unyielding => {
                Some(waiter.ticket)
            }
            _ => None,
        };
        let is_theirs = |place: &&mut Place| Some(place.waiter.ticket) == yields;
        let request_kept = record.line.iter_mut().find(is_theirs).and_then(|place| place.request.clone());
        let mut answer = apply(&self.life, record, &request, EPOCH, now);
        if let Some(place) = record.line.iter_mut().find(is_theirs) {
            place.request = request_kept;
        }
        if !line.is_empty() {
            let Request::Acquire { waiter, .. } = &request else { unreachable!("only who asks is kept from the line") };
            record.line = line;
            record.line.retain(|place| Some(place.waiter) != *waiter);
        }
        if let (true, Request::Release { parting: Some(Parting::Yield(_)), .. }, Vote::Grant { .. }) =
            (self.flaws.self_waking, &request, &answer.vote)
        {
            answer.hint = None;
            self.clients[index].links[node].hints += 1;
        }
        if let Some(hint) = answer.hint {
            let hinted = &mut self.clients[hint.channel.0 as usize];
            // A node sees when nobody listens any more, but not that what it says gets lost.
            let next = answer.next.filter(|_| !hinted.is_dead && !self.flaws.empty_handed);
            let handoff = next.and_then(|next| hand_on(&self.life, record, &next, now));
            if !hinted.is_dead && !self.flaws.deaf {
                match handoff {
                    Some(handoff) => hinted.links[node].replies.push_back(Message::Handoff(handoff)),
                    None => hinted.links[node].hints += 1,
                }
            }
        }
        if request.may_grant() {
            let outcome = Outcome::Voted { vote: answer.vote, sent };
            self.clients[index].links[node].replies.push_back(Message::Vote(request.attempt(), outcome));
        }
    }

    fn carry_out(&mut self, index: usize, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Ask { nodes, request } => {
                    let serial = self.attempts.values().filter(|(client, _)| *client == index).count();
                    self.attempts.entry(request.attempt()).or_insert((index, serial));
                    self.asked[index] += nodes.len();
                    for node in nodes {
                        self.clients[index].links[node].requests.push_back((request.clone(), self.now));
                    }
                }
                Step::Release { attempt, nodes, parting } => self.release(index, attempt, nodes, parting),
                Step::Wake(at) => self.clients[index].wake = Some(at),
                Step::Waits(_) => {}
                Step::Finish(Ok(won)) => {
                    let fence = won.fence.expect("a lock that is not plain has a fence");
                    let client = &mut self.clients[index];
                    (client.won, client.is_served, client.wake) = (Some(won), true, None);
                    self.check(index, fence);
                }
                Step::Finish(Err(defeat)) => panic!("client {index} gave up: {defeat:?}"),
            }
        }
    }

    fn release(&mut self, index: usize, attempt: LeaseId, nodes: Vec<usize>, parting: Option<Parting>) {
        for node in nodes {
            let request = Request::Release { attempt, tombstone: None, parting };
            self.clients[index].links[node].requests.push_back((request, self.now));
        }
    }

    /// What is true whenever somebody wins.
    fn check(&mut self, index: usize, fence: Fence) {
        let modes: Vec<Mode> = self.clients.iter().filter_map(|client| Some(client.won.as_ref()?.mode)).collect();
        let mine = self.clients[index].won.as_ref().map(|won| won.mode);
        match mine {
            Some(Mode::Slot { permits, .. }) => {
                assert!(modes.len() <= permits as usize, "{} holders of {permits} slots", modes.len());
                let is_twice = modes.iter().enumerate().any(|(at, mode)| modes[..at].contains(mode));
                assert!(!is_twice, "a slot has two holders: {modes:?}");
                assert!(!self.fences.contains(&fence), "a fence was given twice");
            }
            Some(Mode::Shared { .. }) => assert!(modes.iter().all(|mode| mode.is_shared()), "a reader beside a writer"),
            _ => {
                assert_eq!(modes.len(), 1, "somebody else holds it, too");
                assert!(
                    self.fences.iter().all(|earlier| *earlier < fence),
                    "a fence that is not above all earlier ones"
                );
            }
        }
        self.fences.push(fence);
    }
}

/// The text with its fences brought close together: in the same order, and no nearer than they were, up to a few.
fn by_order(text: &str) -> String {
    const APART: u64 = 4;
    let number = |part: &str| part.split(')').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or_default();
    let parts: Vec<&str> = text.split("Fence(").collect();
    let mut fences: Vec<u64> = parts.iter().skip(1).map(|part| number(part)).collect();
    fences.sort_unstable();
    fences.dedup();
    let mut ranks = BTreeMap::new();
    let (mut last, mut rank) = (0, 0);
    for fence in fences {
        rank += (fence - last).min(APART);
        last = fence;
        ranks.insert(fence, rank);
    }
    let mut ordered = String::from(parts[0]);
    for part in &parts[1..] {
        ordered.push_str(&ranks[&number(part)].to_string());
        ordered.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    ordered
}
