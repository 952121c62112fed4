//! Answers single requests from the copy.

use std::ops::Bound;

use quorlock::{EventView, Filter, ListPage, LockView};

use super::state::Listed;
use super::{Hub, unix_millis};
use crate::auth::Identity;
use crate::problem::Problem;
use crate::view::{LockPage, MissingNode};

/// The prefix of a cursor for the copy. The name of a lock follows.
const NAME_CURSOR: &str = "name:";
/// The prefix of a cursor for the keys of the nodes. A cursor of the library follows.
const KEYS_CURSOR: &str = "keys:";

impl Hub {
    /// Returns when the nodes were read, and the newest events that the caller may see, newest first. If a name is
    /// given, returns only the events of that name.
    pub(crate) async fn history(
        &self,
        caller: &Identity,
        name: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Vec<EventView>), Problem> {
        self.wait_until_fresh().await;
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        read.recalled.clone()?;
        let is_wanted = |event: &&EventView| name.is_none_or(|name| name == event.name) && caller.sees(&event.name);
        Ok((read.as_of, state.history.iter().filter(is_wanted).take(limit).cloned().collect()))
    }

    /// Returns a page of the locks that the caller may see and whose names start with `prefix`. The page starts at the
    /// cursor.
    ///
    /// If there are more names than the copy can hold, it reads a bounded number of keys from the nodes. If `may_read`
    /// does not permit that, it returns the error of `may_read`.
    pub(crate) async fn list(
        &self,
        caller: &Identity,
        (prefix, cursor): (&str, &str),
        limit: usize,
        may_read: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<LockPage, Problem> {
        let filter = Filter::beginning_with(prefix).among(&caller.names).limit(limit);
        let position = if let Some(position) = cursor.strip_prefix(KEYS_CURSOR) {
            position
        } else {
            let after = if cursor.is_empty() { Some("") } else { cursor.strip_prefix(NAME_CURSOR) };
            let invalid = || Problem::invalid("the cursor is not one of this service: send `next` of the page before");
            let after = after.ok_or_else(invalid)?;
            self.wait_until_fresh().await;
            if let Some(page) = self.page(prefix, after, &filter, limit)? {
                return Ok(page);
            }
            ""
        };
        may_read()?;
        let _reading = self.read().await;
        let as_of = unix_millis();
        let ListPage { names, next, missing, .. } = self.reader.list_page(&filter, position).await?;
        let next = next.map(|next| format!("{KEYS_CURSOR}{next}"));
        let locks = names.iter().map(LockView::from).collect();
        Ok(LockPage { as_of, locks, next, missing: MissingNode::list(missing) })
    }

    /// Returns the page after this name, if the copy has all names.
    fn page(&self, prefix: &str, after: &str, filter: &Filter, limit: usize) -> Result<Option<LockPage>, Problem> {
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        let Listed { is_cut, missing } = read.listed.as_ref().map_err(Clone::clone)?;
        if *is_cut {
            return Ok(None);
        }
        let from = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let behind = state.locks.range::<str, _>((from, Bound::Unbounded));
        let mut fitting = behind.filter(|(name, _)| filter.fits(name)).map(|(_, tracked)| &tracked.lock);
        let locks: Vec<LockView> = fitting.by_ref().take(limit).cloned().collect();
        let more = fitting.next().and_then(|_| locks.last());
        let next = more.map(|last| format!("{NAME_CURSOR}{}", last.name));
        Ok(Some(LockPage { as_of: read.as_of, locks, next, missing: missing.clone() }))
    }

    /// Returns the state of a name, and when it was read. Reads the nodes if `may_read` permits that. If not, returns a
    /// copy that is at most a second old, or the error of `may_read` if there is no such copy.
    pub(crate) async fn one(
        &self,
        name: &str,
        may_read: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(u64, LockView), Problem> {
        let Err(problem) = may_read() else {
            let _reading = self.read().await;
            let as_of = unix_millis();
            let lock = LockView::from(&self.reader.inspect(name).await?);
            self.state().add_look(as_of, lock.clone());
            return Ok((as_of, lock));
        };
        if let Some(look) = self.state().find_look(name) {
            return Ok(look);
        }
        self.wait_until_fresh().await;
        let state = self.state();
        let read = state.read.as_ref().ok_or_else(Problem::draining)?;
        read.listed.as_ref().map_err(Clone::clone)?;
        let tracked = state.locks.get(name).ok_or(problem)?;
        Ok((read.as_of, tracked.lock.clone()))
    }
}
