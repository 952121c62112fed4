//! Lists names page by page. The work for each page is bounded, however many names and keys there are.

use std::sync::Arc;

use quorlock_core::name::Name;
use quorlock_core::nodes::NODES_MAX;
use quorlock_core::vote::Silence;

use super::{Filter, INSPECTED_AT_ONCE, inspect_all, search_page};
use crate::cluster::Cluster;
use crate::cluster::inspect::Inspection;
use crate::error::{Operation, ReadError};

/// The largest number of searches for one page.
const SEARCHES_MAX: usize = 20;

/// Some of the names that are held or waited for, in the order in which the nodes keep their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListPage {
    /// The names of this page, each with its state on every node. The list may be empty even if there are more pages.
    pub names: Vec<Inspection>,
    /// The cursor of the next page; `None` after the last page.
    pub next: Option<String>,
    /// The nodes that could not be searched for this page, and why.
    pub missing: Vec<(String, Silence)>,
}

/// A position in a listing. The listing searches the nodes one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Position {
    node: usize,
    /// The nodes whose search failed, as a bit each.
    failed: u32,
    /// The cursor of `node` for the current page of keys.
    cursor: String,
    /// The last inspected name of the current page of keys.
    inspected: String,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let mut parts = text.splitn(4, ' ');
        let (node, failed) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let length = parts.next()?.parse().ok()?;
        let (cursor, inspected) = parts.next()?.split_at_checked(length)?;
        let position = Self { node, failed, cursor: cursor.into(), inspected: inspected.into() };
        // Only nodes that were searched before can have failed.
        let is_possible = position.node <= NODES_MAX && u64::from(position.failed) < 1 << position.node;
        is_possible.then_some(position)
    }

    fn to_text(&self) -> String {
        let Self { node, failed, cursor, inspected } = self;
        format!("{node} {failed} {} {cursor}{inspected}", cursor.len())
    }

    /// Returns the position after a page of keys: the next page of the same node, or the first page of the next node.
    fn advance(&self, next: Option<String>) -> Self {
        let node = self.node + usize::from(next.is_none());
        Self { node, failed: self.failed, cursor: next.unwrap_or_default(), inspected: String::new() }
    }

    fn has_failed(&self, node: usize) -> bool {
        self.failed >> node & 1 == 1
    }
}

pub(crate) async fn list_page(cluster: &Arc<Cluster>, filter: &Filter, position: &str) -> Result<ListPage, ReadError> {
    if cluster.is_closed() {
        return Err(ReadError::Closed);
    }
    let mut at = Position::parse(position).ok_or(ReadError::InvalidCursor)?;
    let mut page = ListPage::default();
    // Names that an earlier node has listed count too, because the listing inspects these names again.
    let mut inspections_left = filter.limit.max(INSPECTED_AT_ONCE);
    for _ in 0..SEARCHES_MAX {
        let Some(link) = cluster.links.get(at.node) else { return Ok(page) };
        let (names, next) = match search_page(cluster, link, filter, at.cursor.clone()).await {
            Ok(found) => found,
            Err(silence) => {
                page.missing.push((link.title.clone(), silence));
                at.failed |= 1 << at.node;
                check_quorum(cluster, &page, &at)?;
                at = at.advance(None);
                continue;
            }
        };
        let inspected = at.inspected.clone();
        let mut names = names.into_iter().filter(|name| name.as_str() > inspected.as_str()).peekable();
        while names.peek().is_some() {
            let count = (filter.limit - page.names.len()).min(inspections_left).min(INSPECTED_AT_ONCE);
            if count == 0 {
                page.next = Some(at.to_text());
                return Ok(page);
            }
            let chunk: Vec<Name> = names.by_ref().take(count).collect();
            inspections_left -= chunk.len();
            let inspected = inspect_all(cluster, &chunk).await?;
            page.names.extend(inspected.into_iter().filter(|inspection| !was_listed_before(inspection, &at)));
            chunk[chunk.len() - 1].as_str().clone_into(&mut at.inspected);
        }
        at = at.advance(next);
    }
    page.next = (at.node < cluster.links.len()).then(|| at.to_text());
    Ok(page)
}

/// Returns whether the listing of an earlier node contained the name. This is assumed if that node still has the name.
/// Ignores nodes whose search failed, so the listing may contain a name of such a node twice.
fn was_listed_before(inspection: &Inspection, at: &Position) -> bool {
    let earlier = inspection.nodes.iter().take(at.node).enumerate().filter(|(node, _)| !at.has_failed(*node));
    let mut reports = earlier.filter_map(|(_, (_, report))| report.as_ref().ok());
    reports.any(|report| report.held.is_some() || report.waiting > 0)
}

/// Returns an error if the search failed on so many nodes that the others may not have every held name.
fn check_quorum(cluster: &Cluster, page: &ListPage, at: &Position) -> Result<(), ReadError> {
    if cluster.settings.electors.has_majority_without(at.failed.count_ones() as usize) {
        return Ok(());
    }
    let silence = |node: usize, title: &str| {
        let of_this_page = page.missing.iter().find(|(missing, _)| missing == title).map(|(_, why)| why.clone());
        at.has_failed(node).then(|| of_this_page.unwrap_or_else(|| Silence::Failed("failed on an earlier page".into())))
    };
    let silences = cluster.links.iter().enumerate().map(|(node, link)| silence(node, &link.title));
    Err(cluster.no_quorum(Operation::List, silences))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_round_trips_through_text() {
        for (cursor, inspected) in [("", ""), ("q17", "a name"), ("1 q5", ""), ("key \u{e9}", "\u{e9} 1 ")] {
            let position = Position { node: 2, failed: 1, cursor: cursor.into(), inspected: inspected.into() };
            assert_eq!(Position::parse(&position.to_text()), Some(position));
        }
        assert_eq!(Position::parse(""), Some(Position::default()));
        for wrong in ["a", "1", "1 2", "1 0 2", "x 0 0 ", "1 x 0 ", "1 0 x ", "1 0 9 short", "0 0 1 \u{e9}", "-1 0 0 "]
            .into_iter()
            .chain(["2 4 0 ", "0 1 0 ", "32 0 0 ", "4294967296 0 0 "])
        {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
