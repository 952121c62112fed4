//! Answers from the copy, to those who ask once.

use std::collections::HashMap;
use std::fmt;
use std::ops::Bound;
use std::time::Instant;

use quorlock::{Filter, ListPage, LockView};

use super::state::Listed;
use super::{Hub, PACE, unix_millis};
use crate::auth::Caller;
use crate::problem::Problem;
use crate::view::EventView;

/// Single names that were read from the nodes in the last second, at most.
const LOOKS_MAX: usize = 1_024;

/// Locks in the order of their names.
pub(crate) struct Page {
    /// When the nodes were read, in milliseconds of Unix time.
    pub(crate) as_of: u64,
    pub(crate) locks: Vec<LockView>,
    /// The cursor of the next page.
    pub(crate) next: Option<String>,
    /// The nodes that could not be looked through, and why.
    pub(crate) missing: Vec<(String, String)>,
}

/// Single names that were read from the nodes a moment ago.
#[derive(Default)]
pub(super) struct Looks(HashMap<String, (Instant, u64, LockView)>);

impl Looks {
    fn add(&mut self, as_of: u64, lock: LockView) {
        self.0.retain(|_, (at, ..)| at.elapsed() < PACE);
        if self.0.len() < LOOKS_MAX || self.0.contains_key(&lock.name) {
            self.0.insert(lock.name.clone(), (Instant::now(), as_of, lock));
        }
    }

    fn find(&self, name: &str) -> Option<(u64, LockView)> {
        let (at, as_of, lock) = self.0.get(name)?;
        (at.elapsed() < PACE).then(|| (*as_of, lock.clone()))
    }
}

/// Where a page begins.
#[derive(Clone, Copy)]
enum Cursor<'a> {
    /// After this name, in the copy.
    Name(&'a str),
    /// At a position in the nodes' keys.
    Position(&'a str),
}

impl<'a> Cursor<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::Name(""));
        }
        match text.split_once(':')? {
            ("name", name) => Some(Self::Name(name)),
            ("keys", position) => Some(Self::Position(position)),
            _ => None,
        }
    }

    fn invalid() -> Problem {
        Problem::invalid("the cursor is not one of this service: send `next` of the page before")
    }
}

impl fmt::Display for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name:{name}"),
            Self::Position(position) => write!(f, "keys:{position}"),
        }
    }
}

impl Hub {
    /// When the nodes were read, and the newest events that the caller may see, newest first; of one name, if that is set.
    pub(crate) async fn history(
        &self,
        caller: &Caller,
        name: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Vec<EventView>), Problem> {
        self.refresh().await;
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        read.recalled.clone()?;
        let is_wanted = |event: &&EventView| name.is_none_or(|name| name == event.name) && caller.sees(&event.name);
        Ok((read.as_of, state.history.iter().filter(is_wanted).take(limit).cloned().collect()))
    }

    /// The locks that the caller may see and whose names begin with `prefix`, from the cursor on.
    ///
    /// If there are more names than the copy has room for, the nodes are read, if `may_read` allows it: a bounded number
    /// of keys.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        (prefix, cursor): (&str, &str),
        limit: usize,
        may_read: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<Page, Problem> {
        let cursor = Cursor::parse(cursor).ok_or_else(Cursor::invalid)?;
        let filter = Filter::beginning_with(prefix).among(caller.names()).limit(limit);
        let position = match cursor {
            Cursor::Position(position) => position,
            Cursor::Name(name) => {
                self.refresh().await;
                match self.page(prefix, name, &filter, limit)? {
                    Some(page) => return Ok(page),
                    None => "",
                }
            }
        };
        may_read()?;
        let _reading = self.read().await;
        let as_of = unix_millis();
        let ListPage { names, next, missing, .. } = self.reader.list_page(&filter, position).await?;
        let next = next.map(|next| Cursor::Position(&next).to_string());
        let missing = missing.into_iter().map(|(node, why)| (node, why.to_string())).collect();
        Ok(Page { as_of, locks: names.iter().map(LockView::from).collect(), next, missing })
    }

    /// The page after this name, if the copy has all names.
    fn page(&self, prefix: &str, after: &str, filter: &Filter, limit: usize) -> Result<Option<Page>, Problem> {
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        let Listed { is_cut, missing } = read.listed.clone()?;
        if is_cut {
            return Ok(None);
        }
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let behind = state.locks.range::<str, _>((from, Bound::Unbounded));
        let mut fitting = behind.filter(|(name, _)| filter.fits(name)).map(|(_, tracked)| &tracked.lock);
        let locks: Vec<LockView> = fitting.by_ref().take(limit).cloned().collect();
        let more = fitting.next().and_then(|_| locks.last());
        let next = more.map(|last| Cursor::Name(&last.name).to_string());
        Ok(Some(Page { as_of: read.as_of, locks, next, missing }))
    }

    /// When the nodes were read, and how a name stands: as of now if `may_read` allows it, or else as of at most a second
    /// ago. If no copy has the name, what `may_read` said is the problem.
    pub(crate) async fn one(
        &self,
        name: &str,
        may_read: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(u64, LockView), Problem> {
        let Err(problem) = may_read() else {
            let _reading = self.read().await;
            let as_of = unix_millis();
            let lock = LockView::from(&self.reader.inspect(name).await?);
            self.state().looks.add(as_of, lock.clone());
            return Ok((as_of, lock));
        };
        if let Some(look) = self.state().looks.find(name) {
            return Ok(look);
        }
        self.refresh().await;
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        read.listed.clone()?;
        let tracked = state.locks.get(name).ok_or(problem)?;
        Ok((read.as_of, tracked.lock.clone()))
    }
}
