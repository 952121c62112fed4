//! Read-only examination of a node. Sends no hello command, which would change the node.

use std::collections::HashMap;
use std::time::Duration;

use quorlock_core::name::Channel;
use quorlock_core::node::{Identity, NodeCommand, Standing};
use quorlock_core::time::Moment;

use crate::node::{LockKey, Node, RequestReply, STEP_DEADLINE, Trouble, within};
use crate::platform::clock;

/// The number of clock readings in a row. The reading with the shortest round trip is the most exact.
pub(crate) const READINGS: usize = 5;

/// What to examine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The time between the first and the last clock readings; zero to omit the last readings.
    pub(crate) watch: Duration,
    /// An unused name, whose keys show which commands are permitted on lock keys. `None` if no key can be built.
    pub(crate) key: Option<LockKey>,
}

/// What the examination of one node found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// The server's product and version.
    pub(crate) server: Option<String>,
    /// The reason why the examination failed before it was complete.
    pub(crate) trouble: Option<Trouble>,
    pub(crate) identity: Option<Identity>,
    pub(crate) standing: Option<Standing>,
    /// Clock readings at the beginning of the examination.
    pub(crate) first: Vec<Reading>,
    /// Clock readings at the end of the examination.
    pub(crate) last: Vec<Reading>,
    pub(crate) redis: Option<RedisFacts>,
    pub(crate) file: Option<FileFacts>,
}

/// One reading of a node's clock: the time of this process before and after it, and the time of the node.
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

    /// Returns the node's clock minus this process's clock at the middle of the round trip, in microseconds.
    pub(crate) fn offset(&self) -> i64 {
        let middle = (self.sent.as_nanos() / 2 + self.heard.as_nanos() / 2) / 1_000;
        i64::try_from(self.at_micros).unwrap_or(i64::MAX).saturating_sub(middle as i64)
    }
}

/// What a Redis server reports about itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisFacts {
    /// The reply to `INFO`.
    pub(crate) info: String,
    /// The server's settings that `CONFIG GET` returned.
    pub(crate) config: HashMap<String, String>,
    /// The reason why the server cannot be a node.
    pub(crate) unfit: Option<Trouble>,
    /// The commands for locks that the server refused.
    pub(crate) objections: Vec<Objection>,
}

/// A command that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    /// The command.
    pub(crate) command: String,
    /// The kind of key or channel, if the refusal concerns one.
    pub(crate) on: Option<String>,
    /// The server's error message.
    pub(crate) why: String,
}

/// Facts about a node's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) path: String,
    pub(crate) exists: bool,
    /// The name of the file system.
    pub(crate) system: Option<&'static str>,
    /// Whether a reboot deletes the file.
    pub(crate) volatile: bool,
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The free space of the file system in bytes.
    pub(crate) free: Option<u64>,
    /// SQLite's journal mode.
    pub(crate) journal: Option<&'static str>,
}

/// Examines a node through a session, as a client would use it.
pub(crate) async fn by_session(node: &(impl Node + ?Sized), plan: &Plan) -> Probe {
    let mut probe = Probe::default();
    probe.trouble = collect(node, plan.watch, &mut probe).await.err();
    probe
}

/// Adds each result to the probe at once, so that the results before a failure are kept.
async fn collect(node: &(impl Node + ?Sized), watch: Duration, probe: &mut Probe) -> Result<(), Trouble> {
    let mut session = within(STEP_DEADLINE, RequestReply::open(node, Channel(0))).await?;
    probe.identity = Some(session.identity().clone());
    read_clock(&mut session, &mut probe.first, &mut probe.standing).await?;
    if !watch.is_zero() {
        tokio::time::sleep(watch).await;
        read_clock(&mut session, &mut probe.last, &mut probe.standing).await?;
    }
    Ok(())
}

async fn read_clock(
    session: &mut RequestReply,
    readings: &mut Vec<Reading>,
    last_standing: &mut Option<Standing>,
) -> Result<(), Trouble> {
    for _ in 0..READINGS {
        let sent = clock::now();
        let standing = within(STEP_DEADLINE, session.node_command(NodeCommand::Look)).await?;
        readings.push(Reading { sent, heard: clock::now(), at_micros: standing.at_micros });
        *last_standing = Some(standing);
    }
    Ok(())
}
