//! The shape of a run: the number of requests and replies of each kind on the nodes. Two runs with different shapes are
//! different.

use quorlock::sim::{Question, Said};
use quorlock_core::request::{Parting, Request};
use quorlock_core::vote::{Refusal, Vote};

/// Counts of requests and their results on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Granted acquires.
    pub grants: u32,
    /// Refused acquires.
    pub refusals: u32,
    /// Renewals, granted or not.
    pub renewals: u32,
    /// Releases that removed a vote.
    pub removed_votes: u32,
    /// Releases that asked the node to remove a queue position.
    pub queue_leaves: u32,
    /// Releases that asked the node to keep a queue position.
    pub yields: u32,
    /// Votes that were handed to a waiter.
    pub handoffs: u32,
    /// Requests that arrived from ended connections.
    pub from_ended_connections: u32,
}

impl Shape {
    /// Counts the requests of a batch and their results.
    pub(crate) fn count(&mut self, question: &Question, said: &Said, is_from_ended_connection: bool) {
        let (Question::Batch(_, messages), Said::Votes(votes, _)) = (question, said) else { return };
        for ((_, request), vote) in messages.iter().zip(votes) {
            let is_granted = matches!(vote, Vote::Grant { .. });
            let is_refused = matches!(vote, Vote::Refusal(refusal) if *refusal != Refusal::WrongEpoch);
            self.from_ended_connections += u32::from(is_from_ended_connection);
            match &**request {
                Request::Acquire { .. } | Request::PlainAcquire { .. } => {
                    self.grants += u32::from(is_granted);
                    self.refusals += u32::from(is_refused);
                }
                Request::Renew { .. } => self.renewals += 1,
                Request::Release { parting, .. } => {
                    self.removed_votes += u32::from(is_granted);
                    self.queue_leaves += u32::from(matches!(parting, Some(Parting::Leave(_))));
                    self.yields += u32::from(matches!(parting, Some(Parting::Yield(_))));
                }
                _ => {}
            }
        }
    }
}
