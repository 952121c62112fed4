//! What a node shows to whoever only looks: nothing is changed, no hello is said.

use std::collections::HashMap;
use std::time::Duration;

use quorlock_core::node::{Identity, NodeCommand, Standing};
use quorlock_core::ticket::Channel;
use quorlock_core::time::Moment;

use crate::node::key::LockKey;
use crate::node::{Node, RequestReply, STEP_DEADLINE, Trouble, within};
use crate::platform::clock;

/// How often a node's clock is read in a row: the fastest answer tells most.
pub(crate) const READINGS: usize = 5;

/// What is to be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// For how long the node's clock is watched; zero to read it once.
    pub(crate) watch: Duration,
    /// A name that nobody has: what may be done with its keys may be done with all. `None` if keys cannot be made.
    pub(crate) key: Option<LockKey>,
}

/// What was seen of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// What it is and which version.
    pub(crate) server: Option<String>,
    /// Why it was not seen to the end.
    pub(crate) trouble: Option<Trouble>,
    pub(crate) identity: Option<Identity>,
    pub(crate) standing: Option<Standing>,
    /// Readings of its clock, at the beginning and at the end.
    pub(crate) first: Vec<Reading>,
    pub(crate) last: Vec<Reading>,
    pub(crate) redis: Option<RedisFacts>,
    pub(crate) file: Option<FileFacts>,
}

/// One reading of a node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) sent: Moment,
    pub(crate) heard: Moment,
    pub(crate) at_micros: u64,
}

impl Reading {
    pub(crate) fn round_trip(&self) -> Duration {
        self.heard.since(self.sent)
    }

    /// The node's clock minus ours in the middle of the round trip, in microseconds.
    pub(crate) fn offset(&self) -> i64 {
        let middle = (self.sent.as_nanos() / 2 + self.heard.as_nanos() / 2) / 1_000;
        i64::try_from(self.at_micros).unwrap_or(i64::MAX).saturating_sub(middle as i64)
    }
}

/// What a Redis server says about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisFacts {
    /// The answer to `INFO`.
    pub(crate) info: String,
    pub(crate) config: HashMap<String, String>,
    /// Why it cannot be a node.
    pub(crate) unfit: Option<Trouble>,
    /// What the server said against what has to be done.
    pub(crate) objections: Vec<Objection>,
}

/// Something that the server does not do for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    /// The command.
    pub(crate) command: String,
    /// The kind of key or channel, where it is about one.
    pub(crate) on: Option<String>,
    /// In the server's words.
    pub(crate) why: String,
}

/// What is to be said of a node's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) path: String,
    pub(crate) exists: bool,
    pub(crate) system: Option<String>,
    /// Whether what is in it goes with the machine's next start.
    pub(crate) volatile: bool,
    pub(crate) size: u64,
    pub(crate) free: Option<u64>,
    pub(crate) journal: Option<&'static str>,
}

/// Looks by way of a session, as a client has it.
pub(crate) async fn by_session(node: &(impl Node + ?Sized), plan: &Plan) -> Probe {
    let mut probe = Probe::default();
    match within(STEP_DEADLINE, RequestReply::open(node, Channel(0))).await {
        Err(trouble) => probe.trouble = Some(trouble),
        Ok(mut talk) => {
            probe.identity = Some(talk.identity().clone());
            if let Err(trouble) = look(&mut talk, &mut probe, plan.watch).await {
                probe.trouble = Some(trouble);
            }
        }
    }
    probe
}

async fn look(talk: &mut RequestReply, probe: &mut Probe, watch: Duration) -> Result<(), Trouble> {
    read_clock(talk, &mut probe.first, &mut probe.standing).await?;
    if !watch.is_zero() {
        tokio::time::sleep(watch).await;
        read_clock(talk, &mut probe.last, &mut probe.standing).await?;
    }
    Ok(())
}

async fn read_clock(
    talk: &mut RequestReply,
    readings: &mut Vec<Reading>,
    last: &mut Option<Standing>,
) -> Result<(), Trouble> {
    for _ in 0..READINGS {
        let sent = clock::now();
        let standing = within(STEP_DEADLINE, talk.node_command(NodeCommand::Look)).await?;
        readings.push(Reading { sent, heard: clock::now(), at_micros: standing.at_micros });
        *last = Some(standing);
    }
    Ok(())
}
