//! Which master has which slots.

use ::redis::{ConnectionAddr, ConnectionInfo, Value};

use super::malformed;
use crate::node::Trouble;
use crate::node::redis::cluster::slot::{SLOTS, Slot};
use crate::node::redis::wire::Connecting;
use crate::node::redis::{add_hello, trouble};

/// The most masters that are connected to: more than a Cluster is made for.
const MASTERS_MAX: usize = 1_000;

/// The masters of a Cluster, and what they have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shards {
    pub(super) masters: Vec<(String, u16)>,
    /// For each slot the place of its master in that list.
    lanes: Vec<u16>,
}

impl Shards {
    /// Asks one server what it knows.
    pub(super) async fn ask(mut connecting: Connecting, info: ConnectionInfo) -> Result<Self, Trouble> {
        let mut pipe = ::redis::pipe();
        add_hello(&mut pipe, info.redis_settings());
        pipe.cmd("CLUSTER").arg("SLOTS");
        let answers = connecting.ask(&pipe.get_packed_pipeline(), pipe.len()).await;
        let mut answers = answers.map_err(|error| Trouble::Broken(error.to_string()))?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                let is_alone = error.details().is_some_and(|why| why.contains("cluster support disabled"));
                let alone = || Trouble::Unfit("it is not part of a Redis Cluster".into());
                return Err(if is_alone { alone() } else { trouble(&error.clone().into()) });
            }
        }
        let (ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. }) = info.addr() else {
            return Err(malformed("CLUSTER SLOTS"));
        };
        Self::parse(&answers.pop().unwrap_or(Value::Nil), host)
    }

    /// Reads what a server at this host says: for each range of slots its first and last, the master, and replicas.
    fn parse(value: &Value, host: &str) -> Result<Self, Trouble> {
        let Value::Array(ranges) = value else { return Err(malformed("CLUSTER SLOTS")) };
        let mut masters: Vec<(String, u16)> = Vec::new();
        let mut lanes = vec![None; SLOTS.into()];
        for range in ranges {
            let (first, last, master) = parse_range(range, host).ok_or_else(|| malformed("CLUSTER SLOTS"))?;
            let known = masters.iter().position(|other| *other == master);
            let lane = known.unwrap_or_else(|| {
                masters.push(master);
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

    /// Where the master of a slot is in the list.
    pub(super) fn lane(&self, slot: Slot) -> usize {
        self.lanes[slot.index()].into()
    }
}

fn parse_range(range: &Value, asked: &str) -> Option<(usize, usize, (String, u16))> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else { return None };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        // A server that does not know its own address is where it was asked.
        Value::Nil => asked.to_owned(),
        Value::BulkString(host) if host.is_empty() => asked.to_owned(),
        Value::BulkString(host) if host != b"?" => String::from_utf8(host.clone()).ok()?,
        _ => return None,
    };
    let slot = |number: &i64| usize::try_from(*number).ok().filter(|slot| *slot < SLOTS.into());
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then_some((first, last, (host, u16::try_from(*port).ok()?)))
}

#[cfg(test)]
mod tests;
