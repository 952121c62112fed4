//! Answers single requests from the copy.

use std::ops::Bound;

use quorlock::{EventView, Filter, ListPage, LockView};

use super::state::ListCoverage;
use super::{Hub, unix_millis};
use crate::auth::Identity;
use crate::problem::Problem;
use crate::view::{LockPage, MissingNode};

/// The prefix of a cursor into the copy, before the name of the last lock of the page.
const NAME_CURSOR_PREFIX: &str = "name:";
/// The prefix of a cursor into the keys of the nodes, before the cursor that the library returned.
const KEYS_CURSOR_PREFIX: &str = "keys:";

impl Hub {
    /// Returns when the nodes were read, and the newest events that the caller may see, newest first. If `name` is not
    /// `None`, returns only the events of that name.
    pub(crate) async fn history(
        &self,
        caller: &Identity,
        name: Option<&str>,
        limit: usize,
    ) -> Result<(u64, Vec<EventView>), Problem> {
        self.wait_until_fresh().await;
        let state = self.state();
        let read = state.last_read.as_ref().ok_or_else(Problem::draining)?;
        read.history.clone()?;
        let is_wanted =
            |event: &&EventView| name.is_none_or(|name| name == event.name) && caller.has_access_to(&event.name);
        Ok((read.as_of, state.history.iter().filter(is_wanted).take(limit).cloned().collect()))
    }

    /// Returns a page of the locks that the caller may see and whose names start with `prefix`. The page starts at
    /// `cursor`.
    ///
    /// If there are more locks than the copy can hold, this method reads a bounded number of keys from the nodes, if
    /// `check_read_limit` permits the read.
    ///
    /// # Errors
    /// The error of `check_read_limit` if a read is necessary but not permitted.
    pub(crate) async fn list(
        &self,
        caller: &Identity,
        (prefix, cursor): (&str, &str),
        limit: usize,
        check_read_limit: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<LockPage, Problem> {
        let filter = Filter::beginning_with(prefix).and_any_of(&caller.name_patterns).limit(limit);
        let keys_cursor = if let Some(keys_cursor) = cursor.strip_prefix(KEYS_CURSOR_PREFIX) {
            keys_cursor
        } else {
            let after = if cursor.is_empty() { Some("") } else { cursor.strip_prefix(NAME_CURSOR_PREFIX) };
            let invalid = || Problem::invalid("the cursor is invalid: send the `next` of the previous page");
            let after = after.ok_or_else(invalid)?;
            self.wait_until_fresh().await;
            if let Some(page) = self.page_from_copy(prefix, after, &filter, limit)? {
                return Ok(page);
            }
            ""
        };
        check_read_limit()?;
        let _read_guard = self.start_read().await;
        let as_of = unix_millis();
        let ListPage { names, next, missing, .. } = self.reader.list_page(&filter, keys_cursor).await?;
        let next = next.map(|next| format!("{KEYS_CURSOR_PREFIX}{next}"));
        let locks = names.iter().map(LockView::from).collect();
        Ok(LockPage { as_of, locks, next, missing: MissingNode::list(missing) })
    }

    /// Returns the page of locks whose names come after `after`, or `None` if the copy does not have all locks.
    fn page_from_copy(
        &self,
        prefix: &str,
        after: &str,
        filter: &Filter,
        limit: usize,
    ) -> Result<Option<LockPage>, Problem> {
        let state = self.state();
        let read = state.last_read.as_ref().ok_or_else(Problem::draining)?;
        let ListCoverage { is_truncated, missing } = read.coverage.as_ref().map_err(Clone::clone)?;
        if *is_truncated {
            return Ok(None);
        }
        let start = if after < prefix { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let remaining = state.locks.range::<str, _>((start, Bound::Unbounded));
        let mut matching = remaining.filter(|(name, _)| filter.matches(name)).map(|(_, tracked)| &tracked.lock);
        let locks: Vec<LockView> = matching.by_ref().take(limit).cloned().collect();
        let last_of_page = matching.next().and_then(|_| locks.last());
        let next = last_of_page.map(|last| format!("{NAME_CURSOR_PREFIX}{}", last.name));
        Ok(Some(LockPage { as_of: read.as_of, locks, next, missing: missing.clone() }))
    }

    /// Returns when the nodes were read, and the state of a lock. Reads the nodes if `check_read_limit` permits the
    /// read. Otherwise, returns a state that is at most about a second old.
    ///
    /// # Errors
    /// The error of `check_read_limit` if a read is not permitted and no recent state of the lock is known.
    pub(crate) async fn inspect(
        &self,
        name: &str,
        check_read_limit: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(u64, LockView), Problem> {
        let Err(problem) = check_read_limit() else {
            let _read_guard = self.start_read().await;
            let as_of = unix_millis();
            let lock = LockView::from(&self.reader.inspect(name).await?);
            self.state().add_inspection(as_of, lock.clone());
            return Ok((as_of, lock));
        };
        if let Some(inspection) = self.state().recent_inspection(name) {
            return Ok(inspection);
        }
        self.wait_until_fresh().await;
        let state = self.state();
        let read = state.last_read.as_ref().ok_or_else(Problem::draining)?;
        read.coverage.as_ref().map_err(Clone::clone)?;
        let tracked = state.locks.get(name).ok_or(problem)?;
        Ok((read.as_of, tracked.lock.clone()))
    }
}
