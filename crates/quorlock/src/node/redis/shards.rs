//! The masters of a Redis Cluster, and which hash slots each of them has.

use super::resp::{Commands, Value};
use super::slot::{SLOTS, Slot};
use super::trouble::malformed;
use super::wire::Connecting;
use super::write_hello;
use crate::node::Trouble;
use crate::node::url::{Address, Server};

/// The most masters to connect to: more than a Cluster is designed for.
const MASTERS_MAX: usize = 1_000;

/// The masters of a Redis Cluster, and their hash slots.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shards {
    pub(super) masters: Vec<Server>,
    /// The lane of each hash slot: the index of its master in `masters`. Empty if the node is a single server, not a
    /// Redis Cluster.
    lanes: Vec<u16>,
}

impl Shards {
    /// Returns the shards of a node that is a single server.
    pub(super) fn single(server: Server) -> Self {
        Self { masters: vec![server], lanes: Vec::new() }
    }

    /// Asks one server of a Cluster for its masters.
    pub(super) async fn ask(mut connecting: Connecting, server: Server) -> Result<Self, Trouble> {
        let mut commands = Commands::default();
        write_hello(&server, &mut commands);
        commands.command("CLUSTER").word("SLOTS");
        let values = connecting.query(&mut commands).await.map_err(|trouble| match trouble {
            Trouble::Broken(why) if why.contains("cluster support disabled") => {
                Trouble::Unfit("it is not part of a Redis Cluster".into())
            }
            trouble => trouble,
        })?;
        Self::parse(values.last().unwrap_or(&Value::Nil), &server)
    }

    /// Parses the reply of the server `asked` to `CLUSTER SLOTS`. For each range of slots, the reply has the first slot, the
    /// last slot, the master, and the replicas, which are ignored. All masters get the login of `asked`.
    fn parse(value: &Value, asked: &Server) -> Result<Self, Trouble> {
        let mut masters: Vec<Server> = Vec::new();
        let mut lanes = vec![None; SLOTS.into()];
        for range in value.as_array().ok_or_else(|| malformed("CLUSTER SLOTS"))? {
            let (first, last, address) = parse_range(range, asked).ok_or_else(|| malformed("CLUSTER SLOTS"))?;
            let known = masters.iter().position(|other| other.address == address);
            let lane = known.unwrap_or_else(|| {
                masters.push(Server { address, ..asked.clone() });
                masters.len() - 1
            });
            if masters.len() > MASTERS_MAX {
                return Err(Trouble::Unfit(format!("it has more than {MASTERS_MAX} masters")));
            }
            lanes[first..=last].fill(Some(lane as u16));
        }
        let missing = lanes.iter().filter(|lane| lane.is_none()).count();
        if missing > 0 {
            return Err(Trouble::Unreachable(format!("{missing} of its {SLOTS} slots have no master")));
        }
        Ok(Self { masters, lanes: lanes.into_iter().flatten().collect() })
    }

    /// Returns the lane of this hash slot.
    pub(super) fn lane(&self, slot: Slot) -> usize {
        self.lanes.get(slot.index()).copied().unwrap_or_default().into()
    }
}

fn parse_range(range: &Value, asked: &Server) -> Option<(usize, usize, Address)> {
    let [Value::Int(first), Value::Int(last), master, ..] = range.as_array()? else { return None };
    let [host, Value::Int(port), ..] = master.as_array()? else { return None };
    let host = match (host, &asked.address) {
        (Value::Text(host), _) if host == b"?" => return None,
        (Value::Text(host), _) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        // If a server does not know its own address, use the address at which we reached it.
        (Value::Nil | Value::Text(_), Address::Tcp(host, _)) => host.clone(),
        _ => return None,
    };
    let slot = |number: &i64| usize::try_from(*number).ok().filter(|slot| *slot < SLOTS.into());
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then_some((first, last, Address::Tcp(host, u16::try_from(*port).ok()?)))
}

#[cfg(test)]
mod tests;
