//! What changes on the nodes, for all who follow it: one look for everybody, about once a second, while anybody does.

mod change;
mod lapses;
mod mark;
mod outages;
mod past;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use quorlock::{Client, Filter, HISTORY_MAX, HistoryError, LIST_MAX};
use serde::Serialize;
use tokio::sync::{Notify, broadcast, watch};

use crate::auth::Caller;
use crate::view::{EventView, LockView, NodesView, millis};
use change::Tracked;
use lapses::Lapses;
pub(crate) use mark::Mark;
use outages::{Outage, Outages};
use past::Past;

/// How often the nodes are looked at.
const PACE: Duration = Duration::from_secs(1);
/// A look that takes long is followed by a rest of so many times its length.
const REST: u32 = 4;
/// How many events are kept for readers that come back.
const KEPT_MAX: usize = 20_000;
/// How far a reader may be behind before it begins anew.
const BEHIND_MAX: usize = 16_384;
/// How many events of the history a snapshot has.
const HISTORY_SHOWN: usize = 200;
/// How many are read, as long as those do not reach back to what is known: at last all that the nodes keep.
const HISTORY_READ: [usize; 3] = [HISTORY_SHOWN, 2_000, HISTORY_MAX];

/// One thing to tell.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) mark: Mark,
    pub(crate) what: &'static str,
    /// One line of JSON.
    pub(crate) data: String,
    /// The lock that it is about.
    name: Option<String>,
}

/// Looks at the nodes, and tells what has changed.
pub(crate) struct Hub {
    client: Client,
    stopping: watch::Receiver<bool>,
    told: broadcast::Sender<Arc<News>>,
    /// How many looks there have been.
    looks: watch::Sender<u64>,
    wanted: Notify,
    state: Mutex<State>,
}

struct State {
    last: Mark,
    kept: VecDeque<Arc<News>>,
    locks: BTreeMap<String, Tracked>,
    nodes: NodesView,
    /// Newest first.
    history: Vec<EventView>,
    past: Past,
    outages: Outages,
    lapses: Lapses,
    looked: Option<Instant>,
}

#[derive(Serialize)]
struct Snapshot<'a> {
    at_ms: u64,
    nodes: &'a NodesView,
    locks: Vec<&'a Tracked>,
    history: Vec<&'a EventView>,
    outages: Vec<&'a Outage>,
    /// Newest first.
    lapses: Vec<&'a EventView>,
}

#[derive(Serialize)]
struct Looked {
    at_ms: u64,
    took_ms: u64,
    locks: usize,
    /// Whether there are more than these.
    is_cut: bool,
    /// Why the locks could not be looked at: they are as of the last look that could.
    trouble: Option<String>,
}

#[derive(Serialize)]
struct Gone<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Gap {
    at_ms: u64,
}

/// What to tell, as one line of JSON, and of which lock.
type Tidings = Vec<(&'static str, String, Option<String>)>;

impl Hub {
    pub(crate) fn new(client: Client, stopping: watch::Receiver<bool>) -> Arc<Self> {
        let nodes = NodesView::new(client.node_stats());
        Arc::new(Self {
            client,
            stopping,
            told: broadcast::Sender::new(BEHIND_MAX),
            looks: watch::Sender::new(0),
            wanted: Notify::new(),
            state: Mutex::new(State {
                last: Mark::first(),
                kept: VecDeque::new(),
                locks: BTreeMap::new(),
                nodes,
                history: Vec::new(),
                past: Past::default(),
                outages: Outages::default(),
                lapses: Lapses::default(),
                looked: None,
            }),
        })
    }

    /// Looks at the nodes for as long as anybody follows, until the service stops.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut stopping = self.stopping.clone();
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = self.turn() => {}
            }
        }
    }

    async fn turn(&self) {
        if self.told.receiver_count() == 0 {
            tokio::select! {
                () = self.wanted.notified() => {}
                // What happens to nodes is known only to whoever sees it.
                () = tokio::time::sleep(PACE) => return self.glance(),
            }
        }
        let began = Instant::now();
        self.look(began).await;
        let pause = PACE.max(began.elapsed() * REST);
        tokio::time::sleep(pause.saturating_sub(began.elapsed())).await;
    }

    /// Looks at what this replica knows of the nodes anyway.
    fn glance(&self) {
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        let news = state.outages.see(&nodes, unix_millis());
        state.lapses.lose_sight();
        self.tell(&mut state, news.iter().map(|outage| ("node", json(outage), None)).collect());
    }

    async fn look(&self, began: Instant) {
        let filter = Filter::default().limit(LIST_MAX);
        let (listing, history) = tokio::join!(self.client.list(&filter), self.happened());
        let nodes = NodesView::new(self.client.node_stats());
        let mut state = self.state();
        let mut news = Vec::new();
        news.extend(state.outages.see(&nodes, unix_millis()).iter().map(|outage| ("node", json(outage), None)));
        // Round trips and clocks are never the same.
        news.push(("nodes", json(&nodes), None));
        state.nodes = nodes;
        let (is_cut, trouble) = match listing {
            Ok(listing) => {
                let locks: Vec<LockView> = listing.names.iter().map(LockView::new).collect();
                let granted = lapses::granted(history.as_deref().unwrap_or_default());
                news.extend(state.compare(locks, &granted));
                (listing.is_cut, None)
            }
            // What was known stands, and readers are told that it does.
            Err(error) => (false, Some(error.to_string())),
        };
        match history {
            Ok(history) if trouble.is_none() && !is_cut => {
                state.lapses.looked();
                let lapsed = state.lapses.judge(&history);
                news.extend(lapsed.iter().map(told));
                news.extend(state.remember(history));
            }
            history => {
                state.lapses.lose_sight();
                news.extend(history.map(|history| state.remember(history)).unwrap_or_default());
            }
        }
        let took_ms = millis(began.elapsed());
        let looked = Looked { at_ms: unix_millis(), took_ms, locks: state.locks.len(), is_cut, trouble };
        news.push(("look", json(&looked), None));
        self.tell(&mut state, news);
        state.looked = Some(Instant::now());
        drop(state);
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// The newest events, newest first: as many as it takes to reach what is known.
    async fn happened(&self) -> Result<Vec<EventView>, HistoryError> {
        let mut events = Vec::new();
        // The first time, all that there is: whether what is held was written down shows only there.
        let is_first = self.state().looked.is_none();
        let limits = HISTORY_READ.into_iter().skip(if is_first { HISTORY_READ.len() - 1 } else { 0 });
        for limit in limits {
            events = self.client.history(limit).await?.iter().map(EventView::new).collect();
            if events.len() < limit || self.state().past.reaches(&events) {
                break;
            }
        }
        Ok(events)
    }

    fn tell(&self, state: &mut State, news: Tidings) {
        for (what, data, name) in news {
            let mark = state.last.next();
            state.last = mark;
            let news = Arc::new(News { mark, what, data, name });
            state.kept.push_back(Arc::clone(&news));
            // Nobody may be there any more.
            let _ = self.told.send(news);
        }
        let surplus = state.kept.len().saturating_sub(KEPT_MAX);
        state.kept.drain(..surplus);
    }

    /// Follows what changes, from now on or from behind what was read last.
    pub(crate) async fn subscribe(self: &Arc<Self>, caller: Caller, last: Option<Mark>) -> Reader {
        let news = self.told.subscribe();
        let mut looks = self.looks.subscribe();
        let seen = *looks.borrow_and_update();
        self.wanted.notify_one();
        let is_fresh = self.state().looked.is_some_and(|looked| looked.elapsed() < PACE * 2);
        if !is_fresh {
            // The hub outlives its readers.
            let _ = looks.wait_for(|looks| *looks > seen).await;
        }
        let mut reader = Reader { hub: Arc::clone(self), caller, news, waiting: VecDeque::new(), read: Mark::first() };
        reader.begin(last);
        reader
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What has changed since the last look.
    fn compare(&mut self, locks: Vec<LockView>, granted: &HashSet<(&str, u64)>) -> Tidings {
        let mut news = Vec::new();
        let mut before = std::mem::take(&mut self.locks);
        let (at, at_ms) = (Instant::now(), unix_millis());
        for lock in locks {
            let name = lock.name.clone();
            let earlier = before.remove(&name);
            if let Some(earlier) = &earlier {
                self.lapses.compare(earlier, Some(&lock), at_ms);
            }
            let is_granted = lock.fence.is_some_and(|fence| granted.contains(&(&*name, fence)));
            let (tracked, is_new) = Tracked::after(earlier, lock, at, at_ms, is_granted);
            if is_new {
                news.push(("lock", json(&tracked), Some(name.clone())));
            }
            self.locks.insert(name, tracked);
        }
        for (name, earlier) in before {
            self.lapses.compare(&earlier, None, at_ms);
            news.push(("gone", json(&Gone { name: &name }), Some(name)));
        }
        news
    }

    /// What has happened since the last look, of the newest events.
    fn remember(&mut self, mut events: Vec<EventView>) -> Tidings {
        let mut news = Vec::new();
        if events.len() >= HISTORY_MAX && !self.past.meets(&events) {
            let at_ms = events.last().map_or(0, |oldest| oldest.at_ms);
            news.push(("gap", json(&Gap { at_ms }), None));
        }
        let fresh = self.past.add(&events, HISTORY_SHOWN);
        self.lapses.hear(fresh.len());
        // The first look has no earlier one to differ from.
        if self.looked.is_some() {
            news.extend(fresh.iter().map(told));
        }
        events.truncate(HISTORY_SHOWN);
        self.history = events;
        news
    }

    fn snapshot(&self, caller: &Caller) -> News {
        let locks = self.locks.iter().filter(|(name, _)| caller.sees(name)).map(|(_, tracked)| tracked).collect();
        let history = self.history.iter().filter(|event| caller.sees(&event.name)).collect();
        let outages = self.outages.seen().collect();
        let lapses = self.lapses.seen().filter(|lapse| caller.sees(&lapse.name)).collect();
        let data = json(&Snapshot { at_ms: unix_millis(), nodes: &self.nodes, locks, history, outages, lapses });
        News { mark: self.last, what: "snapshot", data, name: None }
    }
}

/// Somebody who follows.
pub(crate) struct Reader {
    hub: Arc<Hub>,
    caller: Caller,
    news: broadcast::Receiver<Arc<News>>,
    waiting: VecDeque<Arc<News>>,
    read: Mark,
}

impl Reader {
    /// Goes on behind what was read last if that is known here, and else begins with everything.
    fn begin(&mut self, last: Option<Mark>) {
        let state = self.hub.state();
        let known = last.filter(|last| state.kept.iter().any(|news| news.mark == *last));
        self.waiting = match known {
            Some(last) => state.kept.iter().filter(|news| news.mark.is_behind(last)).map(Arc::clone).collect(),
            None => VecDeque::from([Arc::new(state.snapshot(&self.caller))]),
        };
        self.read = known.unwrap_or(Mark::first());
    }

    /// What is to be told next.
    pub(crate) async fn next(&mut self) -> Arc<News> {
        loop {
            if let Some(news) = self.waiting.pop_front() {
                if news.what == "snapshot" || news.mark.is_behind(self.read) {
                    self.read = news.mark;
                    if news.name.as_ref().is_none_or(|name| self.caller.sees(name)) {
                        return news;
                    }
                }
                continue;
            }
            match self.news.recv().await {
                Ok(news) => self.waiting.push_back(news),
                // Too far behind: everything anew.
                Err(broadcast::error::RecvError::Lagged(_)) => self.begin(None),
                // The hub has its own end of it.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

fn told(event: &EventView) -> (&'static str, String, Option<String>) {
    ("history", json(event), Some(event.name.clone()))
}

fn json(value: &impl Serialize) -> String {
    // Texts and numbers can always be written down.
    serde_json::to_string(value).unwrap_or_default()
}

fn unix_millis() -> u64 {
    millis(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests;
