//! Commands about the node itself.

use ::redis::{Cmd, Pipeline, Value, cmd};
use quorlock_core::fence::Fence;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeCommand, Standing, Trust};

use super::super::scripts::{Home, META_FIELDS};
use super::super::{malformed, trouble};
use super::{hex, text, unsigned};
use crate::node::Trouble;

/// a node command as a command.
pub(in crate::node::redis) fn node_command(home: Home, node_command: &NodeCommand) -> Cmd {
    let mut command = cmd("EVALSHA");
    command.arg(&home.scripts().node_command.sha).arg(2).arg(home.epoch_key()).arg(home.meta_key());
    match node_command {
        NodeCommand::Look => command.arg("look"),
        NodeCommand::Hello { identity, fresh, constants, founders, trust } => {
            add_life(command.arg("hello"), identity, *fresh, constants);
            command.arg(founders).arg(floor_offset(*trust))
        }
        NodeCommand::Claim { epoch, elapsed_micros } => command.arg("claim").arg(hex(*epoch)).arg(*elapsed_micros),
        NodeCommand::Init { identity, fresh, constants } => {
            add_life(command.arg("init"), identity, *fresh, constants);
            &mut command
        }
        NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend } => {
            add_life(command.arg("reconfigure"), identity, *fresh, constants);
            command.arg(floor_offset(*trust)).arg(u8::from(*suspend))
        }
    };
    command
}

fn floor_offset(trust: Trust) -> String {
    match trust {
        Trust::Quarantine => String::new(),
        Trust::Vote { floor_offset } => floor_offset.to_string(),
    }
}

fn add_life(command: &mut Cmd, identity: &Identity, fresh: Epoch, constants: &Constants) {
    let Constants { cluster, nodes, max_ttl_millis, max_skew_micros } = constants;
    command.arg(&identity.run).arg(hex(fresh)).arg(cluster).arg(*nodes).arg(*max_ttl_millis).arg(*max_skew_micros);
    command.arg(&identity.promotion);
}

/// How many values answer [`look`].
pub(in crate::node::redis) const LOOK_VALUES: usize = 3;

/// [`NodeCommand::Look`] without a script, because every connection looks every few seconds and a script costs a server several
/// times as much. Others may come in between, so meta is read before the epoch: a life that begins meanwhile shows.
pub(in crate::node::redis) fn look(home: Home) -> Pipeline {
    let mut pipe = ::redis::pipe();
    pipe.cmd("TIME");
    pipe.cmd("HMGET").arg(home.meta_key()).arg(&META_FIELDS[..]);
    pipe.cmd("GET").arg(home.epoch_key());
    pipe
}

/// How a node stands, from what it answers to [`look`].
fn looked(values: impl Iterator<Item = Value>) -> Result<Standing, Trouble> {
    let values: Vec<Value> = values.take(LOOK_VALUES).map(sound).collect::<Result<_, _>>()?;
    let found = || {
        let [time, Value::Array(meta), mark] = values.as_slice() else { return None };
        let Value::Array(time) = time else { return None };
        let [seconds, micros] = time.as_slice() else { return None };
        let (seconds, micros): (i64, i64) = (text(seconds)?.parse().ok()?, text(micros)?.parse().ok()?);
        let at = Value::Int(seconds.checked_mul(1_000_000)?.checked_add(micros)?);
        let known = |value: &Value| if *value == Value::Nil { Value::BulkString(Vec::new()) } else { value.clone() };
        let words = std::iter::once(mark).chain(meta).map(known);
        parse_standing(&Value::Array([Value::Int(1), at].into_iter().chain(words).collect()))
    };
    found().ok_or_else(|| malformed("a look"))
}

fn sound(value: Value) -> Result<Value, Trouble> {
    match value {
        Value::ServerError(error) => Err(trouble(&error.into())),
        value => Ok(value),
    }
}

/// The state of a node after a command, from the first of these values.
pub(in crate::node::redis) fn standing_after(
    command: &NodeCommand,
    mut values: impl Iterator<Item = Value>,
) -> Result<Standing, Trouble> {
    if *command == NodeCommand::Look { looked(values) } else { standing(values.next().unwrap_or(Value::Nil)) }
}

/// How a node stands, from its own words.
pub(in crate::node::redis) fn standing(value: Value) -> Result<Standing, Trouble> {
    parse_standing(&sound(value)?).ok_or_else(|| malformed("a node_command"))
}

fn parse_standing(value: &Value) -> Option<Standing> {
    let Value::Array(parts) = value else { return None };
    let [accepted, at, words @ ..] = parts.as_slice() else { return None };
    // Some of these are shown to people.
    let word = |value| text(value).filter(|word| !word.contains(char::is_control));
    let words: Vec<String> = words.iter().map(word).collect::<Option<_>>()?;
    let [mark, run, cluster, nodes, max_ttl, max_clock_skew, elapsed, founders, rest @ ..] = words.as_slice() else {
        return None;
    };
    let [quarantine, suspended, restarts, promotion] = rest else { return None };
    let life = if cluster.is_empty() {
        None
    } else {
        let (epoch, floor) = parse_mark(mark)?;
        Some(Incarnation {
            identity: Identity { run: run.clone(), promotion: promotion.clone() },
            epoch,
            floor,
            quarantine_micros: quarantine.parse().ok()?,
            suspended: suspended == "1",
            elapsed_micros: elapsed.parse().ok()?,
            constants: Constants {
                cluster: cluster.clone(),
                nodes: nodes.parse().ok()?,
                max_ttl_millis: max_ttl.parse().ok()?,
                max_skew_micros: max_clock_skew.parse().ok()?,
            },
            founders: founders.clone(),
            restarts: restarts.parse().ok()?,
        })
    };
    Some(Standing { accepted: unsigned(accepted)? == 1, life, at_micros: unsigned(at)? })
}

fn parse_mark(mark: &str) -> Option<(Option<Epoch>, Option<Fence>)> {
    if mark.is_empty() {
        return Some((None, None));
    }
    let (epoch, floor) = match mark.split_once(' ') {
        Some((epoch, floor)) => (epoch, Some(Fence::new(floor.parse().ok()?))),
        None => (mark, None),
    };
    Some((Some(Epoch(u128::from_str_radix(epoch, 16).ok()?)), floor))
}
