//! Lists the names that are held or waited for, page by page from every node.

mod glob;
mod page;

pub use page::ListPage;
pub(crate) use page::list_page;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use quorlock_core::name::Name;
use quorlock_core::vote::{NodeVote, Silence, Tally};

use crate::cluster::Cluster;
use crate::cluster::inspect::{Inspection, inspect};
use crate::error::{Operation, ReadError};
use crate::link::Link;
use crate::node::{Answer, Question, Search};
use crate::platform::sync::Mutex;
use glob::Glob;

/// The largest number of names of a listing.
pub const LIST_MAX: usize = 10_000;
/// The default for the largest number of names of a listing.
pub const LIST_DEFAULT: usize = 1_000;
/// The largest number of pages that are read from a node. The node examines a bounded number of keys for each page.
pub(crate) const PAGES_MAX: usize = 1_000;
/// The number of names that are inspected at the same time.
pub(crate) const INSPECTED_AT_ONCE: usize = 64;
/// The shortest deadline for a node that searches for keys.
const PAGE_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// A filter for the names of locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    glob: Glob,
    limit: usize,
    /// Filters of which a name must match at least one.
    any_of: Option<Vec<Filter>>,
}

impl Filter {
    /// Returns a filter for names that match this pattern. `*` matches any text, `?` matches any single character, and
    /// every other character matches itself.
    pub fn new(glob: &str) -> Self {
        Self { glob: Glob::new(glob), limit: LIST_DEFAULT, any_of: None }
    }

    /// Returns a filter for names with this prefix. `*` and `?` in the prefix have no special meaning.
    pub fn beginning_with(beginning: &str) -> Self {
        Self { glob: Glob::beginning_with(beginning), ..Self::default() }
    }

    /// Selects only names that also match at least one of the filters in `others`.
    #[must_use]
    pub fn and_any_of(mut self, others: &[Filter]) -> Self {
        self.any_of = Some(others.into());
        self
    }

    /// Returns whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        self.glob.matches(name)
            && self.any_of.as_ref().is_none_or(|others| others.iter().any(|other| other.matches(name)))
    }

    /// Limits the number of names. A limit above [`LIST_MAX`] is reduced to `LIST_MAX`.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.min(LIST_MAX);
        self
    }
}

/// Returns a filter for all names.
impl Default for Filter {
    fn default() -> Self {
        Self::new("*")
    }
}

/// The names that were held or waited for while the nodes were searched. A listing is not a snapshot of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The listed names, sorted, each with its state on every node.
    pub names: Vec<Inspection>,
    /// Whether there may be more names: the limit was reached, or a node has too many keys to search all of them.
    pub is_truncated: bool,
    /// The nodes that could not be searched, and why.
    pub missing: Vec<(String, Silence)>,
}

pub(crate) async fn list(cluster: &Arc<Cluster>, filter: &Filter) -> Result<Listing, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    let found = Mutex::new(BTreeSet::new());
    let searches = cluster.links.iter().map(|link| search_node(cluster, link, filter, &found));
    let results = join_all(searches).await;
    let is_truncated = results.contains(&Ok(true));
    let silences = || results.iter().map(|result| result.as_ref().err().cloned());
    if !cluster.settings.electors.has_majority_without(silences().flatten().count()) {
        return Err(cluster.no_quorum(Operation::List, silences()));
    }
    let titles = cluster.links.iter().map(|link| link.title.clone());
    let missing = titles.zip(silences()).filter_map(|(title, why)| Some((title, why?))).collect();
    Ok(Listing { names: inspect_all(cluster, &found.into_inner()).await?, is_truncated, missing })
}

impl Cluster {
    /// Returns the error of a read that too few nodes answered. For each node, `silences` contains the reason why the
    /// node did not answer, or `None` if it answered.
    pub(super) fn no_quorum(&self, operation: Operation, silences: impl Iterator<Item = Option<Silence>>) -> ReadError {
        let votes = silences.map(|why| why.map_or(NodeVote::Granted, NodeVote::Silent)).collect();
        ReadError::NoQuorum { operation, tally: self.name_nodes(Tally { votes, nodes: Vec::new() }) }
    }
}

/// Adds the names on one node to `found`, until all names are found or the limit is reached. Returns whether there may
/// be more names.
async fn search_node(
    cluster: &Cluster,
    link: &Link,
    filter: &Filter,
    found: &Mutex<BTreeSet<Name>>,
) -> Result<bool, Silence> {
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let (names, next) = search_page(cluster, link, filter, after).await?;
        let mut found = found.lock();
        for name in names {
            if found.len() >= filter.limit && !found.contains(&name) {
                return Ok(true);
            }
            found.insert(name);
        }
        drop(found);
        match next {
            Some(next) => after = next,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Reads a page of keys from one node. Returns the names that match, and the cursor of the next page.
async fn search_page(
    cluster: &Cluster,
    link: &Link,
    filter: &Filter,
    after: String,
) -> Result<(BTreeSet<Name>, Option<String>), Silence> {
    let template = &cluster.settings.template;
    let deadline = cluster.settings.look_deadline().max(PAGE_DEADLINE_MIN);
    let search = Search { span: template.span(filter.glob.prefix()), after };
    let Answer::Page(page) = link.query(Question::Search(search), deadline).await? else {
        return Err(Silence::Failed("an answer to another question".into()));
    };
    let names = page.keys.iter().filter_map(|key| template.name_of(key));
    Ok((names.filter(|name| filter.matches(name.as_str())).collect(), page.next))
}

/// Returns the state of each name. Omits names that are no longer held or waited for.
async fn inspect_all<'a>(
    cluster: &Arc<Cluster>,
    names: impl IntoIterator<Item = &'a Name>,
) -> Result<Vec<Inspection>, ReadError> {
    let mut inspected = Vec::new();
    let keys = names.into_iter().filter_map(|name| cluster.settings.template.key(name).ok().map(Arc::new));
    let keys: Vec<_> = keys.collect();
    for chunk in keys.chunks(INSPECTED_AT_ONCE) {
        for inspection in join_all(chunk.iter().map(|key| inspect(cluster, key))).await {
            match inspection {
                Ok(inspection) => inspected.push(inspection),
                // The key holds other data, not a lock.
                Err(ReadError::NoQuorum { tally, .. }) if tally.votes.iter().any(is_failed) => {}
                Err(ReadError::NoQuorum { tally, .. }) => {
                    return Err(ReadError::NoQuorum { operation: Operation::List, tally });
                }
                Err(other) => return Err(other),
            }
        }
    }
    inspected.retain(Inspection::is_in_use);
    Ok(inspected)
}

fn is_failed(vote: &NodeVote) -> bool {
    matches!(vote, NodeVote::Silent(Silence::Failed(_)))
}
