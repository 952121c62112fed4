//! Answers from the copy, to those who ask once.

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Instant;

use quorlock::Filter;

use super::state::Listed;
use super::{Hub, PACE, unix_millis};
use crate::auth::Caller;
use crate::problem::Problem;
use crate::view::{EventView, LockView};

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

    /// The locks that the caller may see and whose names begin with `prefix`, after `cursor`.
    ///
    /// If there are more names than the copy has room for, the nodes are read, if `may_read` allows it.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        (prefix, cursor): (&str, &str),
        limit: usize,
        may_read: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<Page, Problem> {
        self.refresh().await;
        let filter = Filter::beginning_with(prefix).among(caller.names()).after(cursor);
        if let Some(page) = self.page(prefix.max(cursor), &filter, limit)? {
            return Ok(page);
        }
        may_read()?;
        let _reading = self.read().await;
        let as_of = unix_millis();
        let listing = self.reader.list(&filter.limit(limit)).await?;
        let Listed { missing, .. } = Listed::new(&listing);
        let next = listing.last.map(|last| last.to_string());
        Ok(Page { as_of, locks: listing.names.iter().map(LockView::new).collect(), next, missing })
    }

    /// The page, if the copy has all names. Those before `from` are not looked at.
    fn page(&self, from: &str, filter: &Filter, limit: usize) -> Result<Option<Page>, Problem> {
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        let Listed { is_cut, missing } = read.listed.clone()?;
        if is_cut {
            return Ok(None);
        }
        let behind = state.locks.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let mut fitting = behind.filter(|(name, _)| filter.fits(name)).map(|(_, tracked)| &tracked.lock);
        let locks: Vec<LockView> = fitting.by_ref().take(limit).cloned().collect();
        let next = fitting.next().and_then(|_| Some(locks.last()?.name.clone()));
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
            let lock = LockView::new(&self.reader.inspect(name).await?);
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
