//! The shape of a run: the number of requests and replies of each kind on the nodes.

use quorlock::sim::{Question, Said};
use quorlock_core::request::{Parting, Request};
use quorlock_core::vote::{Refusal, Vote};

/// Counts of requests and their results on the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Granted acquires.
    pub granted: u32,
    /// Refused acquires.
    pub refused: u32,
    /// Renewals, granted or not.
    pub renewals: u32,
    /// Releases that removed a vote.
    pub released: u32,
    /// Releases that left the queue.
    pub left: u32,
    /// Releases that kept their queue position.
    pub yielded: u32,
    /// Votes that were handed to a waiter.
    pub handed_on: u32,
    /// Requests from connections that had ended.
    pub late: u32,
}

impl Shape {
    pub(crate) fn note(&mut self, question: &Question, said: &Said, is_late: bool) {
        let (Question::Batch(_, messages), Said::Votes(votes, _)) = (question, said) else { return };
        for ((_, request), vote) in messages.iter().zip(votes) {
            let is_granted = matches!(vote, Vote::Grant { .. });
            let is_refused = matches!(vote, Vote::Refusal(refusal) if *refusal != Refusal::WrongEpoch);
            self.late += u32::from(is_late);
            match &**request {
                Request::Acquire { .. } | Request::PlainAcquire { .. } => {
                    self.granted += u32::from(is_granted);
                    self.refused += u32::from(is_refused);
                }
                Request::Renew { .. } => self.renewals += 1,
                Request::Release { parting, .. } => {
                    self.released += u32::from(is_granted);
                    self.left += u32::from(matches!(parting, Some(Parting::Leave(_))));
                    self.yielded += u32::from(matches!(parting, Some(Parting::Yield(_))));
                }
                _ => {}
            }
        }
    }
}
