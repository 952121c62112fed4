//! Which names are held or waited for, page by page from every node.

mod glob;
mod page;

pub use page::ListPage;
pub(crate) use page::list_page;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use quorlock_core::name::Name;
use quorlock_core::quorum::{NodeVote, Tally};
use quorlock_core::vote::Silence;

use crate::cluster::Cluster;
use crate::cluster::inspect::{Inspection, inspect};
use crate::error::{Operation, ReadError};
use crate::link::Link;
use crate::node::key::KeySpan;
use crate::node::{Answer, Page, Question, Search};
use crate::platform::sync::Mutex;
use glob::Glob;

/// The most names that a listing can have.
pub const LIST_MAX: usize = 10_000;
/// How many names a listing has at most, unless said otherwise.
pub const LIST_DEFAULT: usize = 1_000;
/// How many pages of a node are looked at. A node walks a bounded number of keys for each.
pub(crate) const PAGES_MAX: usize = 1_000;
/// How many names are inspected at a time.
const INSPECTED_AT_ONCE: usize = 64;
/// The least patience with a node that looks for keys.
const PAGE_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// Which names to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    glob: Glob,
    limit: usize,
    among: Option<Vec<Filter>>,
}

impl Filter {
    /// Names that fit this pattern: `*` stands for any text, `?` for any one letter, and everything else for itself.
    pub fn new(glob: &str) -> Self {
        Self { glob: Glob::new(glob), limit: LIST_DEFAULT, among: None }
    }

    /// Names that begin like this, with whatever letters.
    pub fn beginning_with(beginning: &str) -> Self {
        Self { glob: Glob::beginning_with(beginning), ..Self::default() }
    }

    /// Only names that one of these fits as well.
    #[must_use]
    pub fn among(mut self, others: &[Filter]) -> Self {
        self.among = Some(others.into());
        self
    }

    /// Whether a name is among those that are to be listed.
    pub fn fits(&self, name: &str) -> bool {
        self.glob.fits(name) && self.among.as_ref().is_none_or(|others| others.iter().any(|other| other.fits(name)))
    }

    /// How many names at most: no more than [`LIST_MAX`].
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit.min(LIST_MAX);
        self
    }
}

/// All names.
impl Default for Filter {
    fn default() -> Self {
        Self::new("*")
    }
}

/// What was held or waited for while the nodes were looked through. It is not one moment's picture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// Each name, in order, and how it stands on every node.
    pub names: Vec<Inspection>,
    /// Whether there may be more: the limit was reached, or a node has more keys than anybody wants to look through.
    pub is_cut: bool,
    /// The nodes that could not be looked through, and why.
    pub missing: Vec<(String, Silence)>,
}

/// What was found so far, by all nodes together.
struct Found {
    names: BTreeSet<Name>,
    is_cut: bool,
}

impl Found {
    /// Whether there are enough names.
    fn add(&mut self, name: Name, filter: &Filter) -> bool {
        let is_enough = self.names.len() >= filter.limit && !self.names.contains(&name);
        self.is_cut |= is_enough;
        if !is_enough {
            self.names.insert(name);
        }
        is_enough
    }
}

pub(crate) async fn list(cluster: &Arc<Cluster>, filter: &Filter) -> Result<Listing, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    let found = Mutex::new(Found { names: BTreeSet::new(), is_cut: false });
    let span = cluster.settings.template.span(filter.glob.beginning());
    let looks = cluster.links.iter().map(|link| look_through(cluster, link, &span, filter, &found));
    let looked = join_all(looks).await;
    if looked.iter().filter(|looked| looked.is_ok()).count() < cluster.settings.quorum.majority() {
        let votes = looked.into_iter().map(|looked| looked.map_or_else(NodeVote::Silent, |()| NodeVote::Granted));
        let tally = cluster.name_nodes(Tally { votes: votes.collect(), nodes: Vec::new() });
        return Err(ReadError::NoQuorum { operation: Operation::List, tally });
    }
    let titles = cluster.links.iter().map(|link| link.title.clone());
    let missing = titles.zip(looked).filter_map(|(title, looked)| Some((title, looked.err()?))).collect();
    let Found { names, is_cut } = found.into_inner();
    Ok(Listing { names: inspect_all(cluster, &names).await?, is_cut, missing })
}

/// Adds what one node has, until it has no more or there is enough.
async fn look_through(
    cluster: &Cluster,
    link: &Link,
    span: &KeySpan,
    filter: &Filter,
    found: &Mutex<Found>,
) -> Result<(), Silence> {
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let page = search(cluster, link, span, after).await?;
        let names = page.keys.iter().filter_map(|key| cluster.settings.template.name_of(key));
        let mut found = found.lock();
        for name in names.filter(|name| filter.fits(name.as_str())) {
            if found.add(name, filter) {
                return Ok(());
            }
        }
        drop(found);
        match page.next {
            Some(next) => after = next,
            None => return Ok(()),
        }
    }
    found.lock().is_cut = true;
    Ok(())
}

/// Asks one node for a page of keys.
async fn search(cluster: &Cluster, link: &Link, span: &KeySpan, after: String) -> Result<Page, Silence> {
    let deadline = cluster.settings.look_deadline().max(PAGE_DEADLINE_MIN);
    match link.query(Question::Search(Search { span: span.clone(), after }), deadline).await? {
        Answer::Page(page) => Ok(page),
        _ => Err(Silence::Failed("an answer out of turn".into())),
    }
}

/// How each name stands; those that nobody has or wants any more are left out.
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
                // The key holds other data: it is nobody's lock.
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
