//! Loses messages as under TCP: a lost message is sent again, or its connection ends.

use std::time::Duration;

/// How often messages are lost, and whether they are sent again.
///
/// A message is the bytes of one read: a batch of requests, or of replies. A stream never has a gap. If a lost message is
/// sent again, the bytes after it wait for it. If it is not sent again, its connection is reset.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// One in this number of messages is lost, in both directions.
    pub lost_one_in: u64,
    /// The time after which a lost message is sent again.
    pub resend_delay: Duration,
    /// One in this number of lost messages is never sent again.
    pub never_resent_one_in: u64,
    /// The seed of the random numbers. Each connection has its own random numbers, which depend on the seed and on the
    /// number of the connection.
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
pub(super) struct LossRng {
    connection: u64,
    /// Created when losses are first switched on.
    rng: Option<fastrand::Rng>,
}

impl LossRng {
    /// Creates the generator of the connection with this number.
    pub(super) fn new(connection: u64) -> Self {
        Self { connection, rng: None }
    }

    /// Decides about the next message.
    pub(super) fn fate(&mut self, loss: Option<Loss>) -> Fate {
        let Some(loss) = loss else { return Fate::Arrives(Duration::ZERO) };
        let rng = self.rng.get_or_insert_with(|| fastrand::Rng::with_seed(loss.seed ^ self.connection));
        let mut draw = |one_in: u64| rng.u64(..one_in.max(1)) == 0;
        if !draw(loss.lost_one_in) {
            Fate::Arrives(Duration::ZERO)
        } else if draw(loss.never_resent_one_in) {
            Fate::Never
        } else {
            Fate::Arrives(loss.resend_delay)
        }
    }
}
