//! Loses messages in the way TCP does: a lost message is sent again, or its connection ends.

use std::time::Duration;

/// How often messages are lost, and whether they are sent again.
///
/// A message is the result of one read: a batch of requests, or of replies. A stream never has a gap: either a lost
/// message is sent again later and the bytes after it wait, or its connection ends.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// One message in this many is lost, in both directions.
    pub one_in: u64,
    /// The delay of a lost message that is sent again.
    pub resent_after: Duration,
    /// One lost message in this many never arrives, and both sides get a reset.
    pub for_good_one_in: u64,
    /// The seed of the random generator. Connections draw from it in the order in which they open.
    pub seed: u64,
}

/// Whether and when a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The message arrives after this delay.
    Arrives(Duration),
    Never,
}

/// Decides which messages of one connection are lost.
pub(super) struct Chances {
    connection: u64,
    /// Created when losses are first switched on.
    rng: Option<fastrand::Rng>,
}

impl Chances {
    /// The chances for the connection with this number.
    pub(super) fn new(connection: u64) -> Self {
        Self { connection, rng: None }
    }

    pub(super) fn fate(&mut self, loss: Option<Loss>) -> Fate {
        let Some(loss) = loss else { return Fate::Arrives(Duration::ZERO) };
        let rng = self.rng.get_or_insert_with(|| fastrand::Rng::with_seed(loss.seed ^ self.connection));
        let mut hit = |one_in: u64| rng.u64(..one_in.max(1)) == 0;
        if !hit(loss.one_in) {
            Fate::Arrives(Duration::ZERO)
        } else if hit(loss.for_good_one_in) {
            Fate::Never
        } else {
            Fate::Arrives(loss.resent_after)
        }
    }
}
