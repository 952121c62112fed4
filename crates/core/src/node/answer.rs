//! A node's answer: the reply to a request, and the message to the first waiter.

use crate::request::Waiter;
use crate::vote::{Handoff, Refusal, Vote};

/// A node's answer, and its message to the first waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The reply to the client that sent the request.
    pub vote: Vote,
    /// The waiter that gets a hint. A hint means "perhaps free now" and proves nothing.
    pub hint: Option<Waiter>,
    /// The vote that the node has given to this waiter, if the hint carries one.
    pub handoff: Option<Handoff>,
}

impl From<Vote> for Answer {
    fn from(vote: Vote) -> Self {
        Self { vote, hint: None, handoff: None }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Vote::Refusal(refusal).into()
    }
}
