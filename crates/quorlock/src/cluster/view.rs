//! The state and the events of a lock, in the form in which the command line, the service and the page show them.

use std::fmt;

use quorlock_core::fence::Fence;
use quorlock_core::name::Holder;
use quorlock_core::vote::{Report, Silence, Waiting};

use super::inspect::Inspection;
use crate::node::event::Event;

/// The state of a lock, as a majority and as each node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LockView {
    /// The name of the lock.
    pub name: String,
    /// Whether a majority of the nodes agrees on a holder.
    pub held: bool,
    /// The holder, if the nodes know it. If there are several holders, the holder that acquired the lock last.
    pub holder: Option<HolderView>,
    /// `exclusive`, `reentrant`, `shared` or `slots`, while the lock is held.
    pub mode: Option<&'static str>,
    /// The number of slots, if the lock is a semaphore.
    pub slots: Option<u32>,
    /// The number of holders.
    pub holds: u32,
    /// The fence of the current lease. A request to break the lease passes this fence.
    pub fence: Option<u64>,
    /// Identifies the lease of a plain lock, which has no fence.
    pub digest: Option<String>,
    /// Whether the lease was broken. The lock is free when the broken lease would have expired.
    pub broken: bool,
    /// When the lock was acquired, in milliseconds of Unix time by the nodes' clocks.
    pub since_ms: Option<u64>,
    /// The time until the lease expires unless it is renewed, in milliseconds.
    pub left_ms: Option<u64>,
    /// The number of waiters, on the node with the most waiters.
    pub waiting: u32,
    /// The first waiters in the queue of the node with the most waiters.
    pub queue: Vec<WaiterView>,
    /// The state on each node.
    pub nodes: Vec<LockOnNode>,
}

/// The state of a lock on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LockOnNode {
    /// The node's URL, without secrets.
    pub node: String,
    /// Why the node did not answer.
    pub trouble: Option<String>,
    /// Whether the node has granted the lock.
    pub held: bool,
    /// The holder, if the node knows it.
    pub holder: Option<HolderView>,
    /// `exclusive`, `reentrant`, `shared` or `slots`, while the lock is held.
    pub mode: Option<&'static str>,
    /// The number of slots, if the lock is a semaphore.
    pub slots: Option<u32>,
    /// The number of holders.
    pub holds: u32,
    /// The fence of the lease.
    pub fence: Option<u64>,
    /// Identifies the lease of a plain lock, which has no fence.
    pub digest: Option<String>,
    /// Whether the lease was broken.
    pub broken: bool,
    /// When the lock was acquired, in milliseconds of Unix time by the node's clock.
    pub since_ms: Option<u64>,
    /// The time until the lease expires unless it is renewed, in milliseconds.
    pub left_ms: Option<u64>,
    /// The number of waiters on this node.
    pub waiting: u32,
}

/// A waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaiterView {
    /// When the waiter began to wait, in milliseconds of Unix time by the nodes' clocks.
    pub since_ms: u64,
    /// Whether the waiter waits for a shared lock.
    pub shared: bool,
}

/// The holder of a lock, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HolderView {
    /// The user and the host, as `user@host`.
    pub host: String,
    /// The process id on that host.
    pub pid: u32,
    /// The holder's label; may be empty.
    pub label: String,
}

/// An event in the history of a lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventView {
    /// The time, in milliseconds of Unix time by the nodes' clocks.
    pub at_ms: u64,
    /// The name of the lock.
    pub name: String,
    /// `granted`, `released`, `lost` or `broken`.
    pub what: &'static str,
    /// The lease's fence.
    pub fence: Option<u64>,
    /// The holder; for a break, the client that broke the lease.
    pub by: Option<HolderView>,
    /// The mode of the lock; for a break, `drain` or `now`.
    pub mode: String,
    /// The reason why the lease was lost or broken.
    pub reason: String,
}

impl From<&Event> for EventView {
    fn from(event: &Event) -> Self {
        Self {
            at_ms: event.at_micros / 1_000,
            name: event.name.to_string(),
            what: event.what.as_str(),
            fence: event.fence.map(Fence::get),
            by: event.holder.as_ref().map(HolderView::from),
            mode: event.mode.clone(),
            reason: event.reason.clone(),
        }
    }
}

impl From<&Holder> for HolderView {
    fn from(holder: &Holder) -> Self {
        Self { host: holder.host.clone(), pid: holder.pid, label: holder.label.clone() }
    }
}

impl From<&Inspection> for LockView {
    fn from(inspection: &Inspection) -> Self {
        let nodes: Vec<_> = inspection.nodes.iter().map(|(node, report)| LockOnNode::new(node, report)).collect();
        let holding = || nodes.iter().filter(|node| node.held);
        let majority = inspection.holder();
        let waiter = |waiting: &Waiting| WaiterView { since_ms: waiting.since_micros / 1_000, shared: waiting.shared };
        let with_most_holders = holding().max_by_key(|node| node.holds);
        let digest = holding().find_map(|node| node.digest.clone()).filter(|_| majority.is_some());
        Self {
            name: inspection.name.to_string(),
            held: majority.is_some(),
            mode: with_most_holders.and_then(|node| node.mode),
            slots: with_most_holders.and_then(|node| node.slots),
            holds: with_most_holders.map_or(0, |node| node.holds),
            // A plain lock has no fence of its own: the stored fence belongs to an earlier lease.
            fence: majority.as_ref().map(|(_, fence)| fence.get()).filter(|fence| *fence > 0 && digest.is_none()),
            holder: majority.and_then(|(holder, _)| holder.as_ref().map(HolderView::from)),
            broken: holding().any(|node| node.broken),
            since_ms: holding().filter_map(|node| node.since_ms).min().filter(|_| digest.is_none()),
            left_ms: holding().filter_map(|node| node.left_ms).max(),
            waiting: inspection.waiting(),
            queue: inspection.queue().iter().map(waiter).collect(),
            digest,
            nodes,
        }
    }
}

impl LockOnNode {
    fn new(node: &str, answer: &Result<Report, Silence>) -> Self {
        let (node, report) = match answer {
            Ok(report) => (node.to_owned(), report),
            Err(why) => return Self { node: node.to_owned(), trouble: Some(why.to_string()), ..Self::default() },
        };
        let waiting = report.waiting;
        let Some(held) = &report.held else { return Self { node, waiting, ..Self::default() } };
        let fenced_report = Some(report).filter(|_| held.digest.is_none());
        Self {
            node,
            trouble: None,
            held: true,
            holder: held.holder.as_ref().map(HolderView::from),
            mode: Some(held.held_mode.as_str()),
            slots: held.held_mode.slots(),
            holds: held.holds,
            fence: fenced_report.map(|report| report.fence.get()).filter(|fence| *fence > 0),
            digest: held.digest.map(|digest| digest.to_string()),
            broken: held.broken,
            since_ms: fenced_report.map(|report| report.since_micros / 1_000).filter(|since| *since > 0),
            left_ms: held.remaining.map(|remaining| remaining.as_millis() as u64),
            waiting,
        }
    }
}

impl fmt::Display for HolderView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Holder { host: self.host.clone(), pid: self.pid, label: self.label.clone() }.fmt(f)
    }
}
