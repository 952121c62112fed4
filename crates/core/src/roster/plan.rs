//! What a client should do about the roster, given what the nodes report.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::View;
use crate::node::roster::{Change, Membership};

/// What a client should do about the roster. None of these steps needs an operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Nothing.
    Idle,
    /// Install the roster that this client believes, on the nodes at these positions of the client's list.
    Install(Vec<usize>),
    /// Finish the proposal that a node has accepted, after a random wait.
    Finish,
    /// Propose that servers that lost their memory, or took the place of others, become members.
    Replace(Change),
    /// Ask every seat, because no majority with a memory is left.
    EverySeat,
}

impl View {
    /// Returns what to do. `addresses` is the client's list; `reports` has what each listed node stores, if it was
    /// reached.
    pub fn plan(&self, addresses: &[Arc<str>], reports: &[Option<&Membership>]) -> Plan {
        let is_complete = reports.len() == addresses.len() && reports.iter().all(Option::is_some);
        let Some(roster) = &self.roster else {
            let is_new = reports.iter().flatten().all(|report| report.roster.is_none());
            // This client believes no roster: it must found or recover the cluster.
            return if is_complete && (is_new || has_no_majority(reports)) { Plan::EverySeat } else { Plan::Idle };
        };
        let is_behind = |report: &Membership| report.generation() < roster.generation && report.seat().is_some();
        let joins = |report: &Membership| {
            report.generation() < roster.generation && report.member.is_some_and(|id| roster.member(id).is_some())
        };
        let behind = reports.iter().enumerate().filter_map(|(at, report)| report.map(|report| (at, report)));
        let behind = behind.filter(|(_, report)| is_behind(report) || joins(report)).map(|(at, _)| at);
        let behind: Vec<usize> = behind.collect();
        if !behind.is_empty() {
            return Plan::Install(behind);
        }
        let is_every_seat_here = is_complete && roster.has_addresses(addresses);
        let has_memory = |report: &&&Membership| report.member.is_some_and(|id| roster.member(id).is_some());
        let members = reports.iter().flatten().filter(has_memory).count();
        if members < roster.majority() || self.settled.is_none() {
            return if is_every_seat_here { Plan::EverySeat } else { Plan::Idle };
        }
        let next = roster.generation + 1;
        let is_accepted =
            |report: &&Membership| report.accepted.as_ref().is_some_and(|accepted| accepted.roster.generation == next);
        if reports.iter().flatten().any(is_accepted) {
            return Plan::Finish;
        }
        let mut change = Change::default();
        for (address, report) in addresses.iter().zip(reports) {
            let Some(fresh) = report.and_then(|report| report.member) else { continue };
            let Some(lost) = roster.member_at(address).filter(|member| member.id != fresh) else { continue };
            if roster.member(fresh).is_none() {
                change.remove.push(lost.id);
                change.add.push((fresh, address.clone()));
            }
        }
        if change == Change::default() { Plan::Idle } else { Plan::Replace(change) }
    }
}

/// Returns whether these reports show fewer than a majority of the newest roster's members with their memory.
fn has_no_majority(reports: &[Option<&Membership>]) -> bool {
    let rosters = reports.iter().flatten().filter_map(|report| report.roster.as_ref());
    rosters.max_by_key(|roster| roster.generation).is_none_or(|roster| {
        let is_member = |report: &&&Membership| report.member.is_some_and(|id| roster.member(id).is_some());
        reports.iter().flatten().filter(is_member).count() < roster.majority()
    })
}
