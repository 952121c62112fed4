//! A listing in pages, each with a bounded amount of work, however many names and keys there are.

use std::sync::Arc;

use quorlock_core::name::Name;
use quorlock_core::vote::Silence;

use super::{Filter, INSPECTED_AT_ONCE, inspect_all, search};
use crate::cluster::Cluster;
use crate::cluster::inspect::Inspection;
use crate::error::{Operation, ReadError};

/// The most searches for keys in one page.
const SEARCHES_MAX: usize = 20;

/// Some of the names that are held or waited for, in the order in which the nodes keep their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// Each name, and its state on every node. May be empty although there are more pages.
    pub names: Vec<Inspection>,
    /// The position of the next page; `None` after the last.
    pub next: Option<String>,
    /// The nodes that could not be searched for this page, and why.
    pub missing: Vec<(String, Silence)>,
}

/// A position in a listing. The nodes are searched one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Position {
    node: usize,
    /// The node's cursor of the page of keys.
    after: String,
    /// The last name of that page of keys that was inspected.
    seen: String,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let (node, text) = text.split_once(' ')?;
        let (length, text) = text.split_once(' ')?;
        let (after, seen) = text.split_at_checked(length.parse().ok()?)?;
        Some(Self { node: node.parse().ok()?, after: after.into(), seen: seen.into() })
    }

    fn to_text(&self) -> String {
        let Self { node, after, seen } = self;
        format!("{node} {} {after}{seen}", after.len())
    }

    /// Returns the position after a page of keys: the next page of the same node, or the first page of the next node.
    fn advance(&self, next: Option<String>) -> Self {
        let node = self.node + usize::from(next.is_none());
        Self { node, after: next.unwrap_or_default(), seen: String::new() }
    }
}

pub(crate) async fn list_page(cluster: &Arc<Cluster>, filter: &Filter, position: &str) -> Result<ListPage, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    let mut at = Position::parse(position).ok_or(ReadError::Position)?;
    let mut page = ListPage::default();
    // Names of an earlier page count as well, because each of them is inspected again.
    let mut looks_left = filter.limit.max(INSPECTED_AT_ONCE);
    for _ in 0..SEARCHES_MAX {
        let Some(link) = cluster.links.get(at.node) else { return Ok(page) };
        let (names, next) = match search(cluster, link, filter, at.after.clone()).await {
            Ok(found) => found,
            Err(silence) => {
                page.missing.push((link.title.clone(), silence));
                check_quorum(cluster, &page)?;
                at = at.advance(None);
                continue;
            }
        };
        let seen = at.seen.clone();
        let mut names = names.into_iter().filter(|name| name.as_str() > seen.as_str()).peekable();
        while names.peek().is_some() {
            let room = (filter.limit - page.names.len()).min(looks_left).min(INSPECTED_AT_ONCE);
            if room == 0 {
                page.next = Some(at.to_text());
                return Ok(page);
            }
            let some: Vec<Name> = names.by_ref().take(room).collect();
            looks_left -= some.len();
            let inspected = inspect_all(cluster, &some).await?;
            page.names.extend(inspected.into_iter().filter(|one| !is_listed_before(one, at.node)));
            some[some.len() - 1].as_str().clone_into(&mut at.seen);
        }
        at = at.advance(next);
    }
    page.next = (at.node < cluster.links.len()).then(|| at.to_text());
    Ok(page)
}

/// Returns whether the search of an earlier node has found the name.
fn is_listed_before(inspection: &Inspection, node: usize) -> bool {
    let reports = inspection.nodes.iter().take(node).filter_map(|(_, said)| said.as_ref().ok());
    reports.into_iter().any(|report| report.held.is_some() || report.waiting > 0)
}

/// Returns an error if too few nodes are left to find every held name.
fn check_quorum(cluster: &Cluster, page: &ListPage) -> Result<(), ReadError> {
    if page.missing.len() <= cluster.settings.quorum.spare() {
        return Ok(());
    }
    let silence = |title: &str| page.missing.iter().find(|(missing, _)| missing == title).map(|(_, why)| why.clone());
    Err(cluster.no_quorum(Operation::List, cluster.links.iter().map(|link| silence(&link.title))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_text() {
        for (after, seen) in [("", ""), ("q17", "a name"), ("1 q5", ""), ("key \u{e9}", "\u{e9} 1 ")] {
            let position = Position { node: 2, after: after.into(), seen: seen.into() };
            assert_eq!(Position::parse(&position.to_text()), Some(position));
        }
        assert_eq!(Position::parse(""), Some(Position::default()));
        for wrong in ["a", "1", "1 2", "x 0 ", "1 x ", "1 9 short", "0 1 \u{e9}", "-1 0 "] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
