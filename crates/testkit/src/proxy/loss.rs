//! Messages that get lost, by the rules of TCP.

use std::time::Duration;

/// How many messages get lost, and what becomes of them.
///
/// A message is what was read in one piece: a batch of requests, or of replies. A stream never has a hole: a message
/// that is lost is sent again later, and what comes behind it waits, or its connection ends.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// One message in so many is lost, both ways.
    pub one_in: u64,
    /// How much later it arrives.
    pub resent_after: Duration,
    /// One lost message in so many never arrives: both sides get a reset.
    pub for_good_one_in: u64,
    /// Where the chances come from. Connections draw one after the other, as they come.
    pub seed: u64,
}

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives(Duration),
    Never,
}

/// One connection's chances.
pub(super) struct Chances(u64);

impl Chances {
    /// The chances of the connection with this number.
    pub(super) fn new(connection: u64) -> Self {
        Self(connection)
    }

    pub(super) fn fate(&mut self, loss: Option<Loss>) -> Fate {
        let Some(loss) = loss else { return Fate::Arrives(Duration::ZERO) };
        if !self.hit(loss.seed, loss.one_in) {
            Fate::Arrives(Duration::ZERO)
        } else if self.hit(loss.seed, loss.for_good_one_in) {
            Fate::Never
        } else {
            Fate::Arrives(loss.resent_after)
        }
    }

    fn hit(&mut self, seed: u64, one_in: u64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = seed ^ self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).is_multiple_of(one_in.max(1))
    }
}
