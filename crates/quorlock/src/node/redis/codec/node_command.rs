//! Commands about the node itself.

use quorlock_core::fence::Fence;
use quorlock_core::node::{Constants, Epoch, Identity, Incarnation, NodeCommand, Standing, Trust};

use super::super::resp::{Commands, Value};
use super::super::scripts::{META_FIELDS, Script, ServerKind};
use super::super::trouble::{checked, malformed};
use super::{hex, unsigned};
use crate::node::Trouble;

/// Writes a node command. A look uses simple commands instead of the script: every connection sends a look every few
/// seconds, and a script costs a server several times as much. Other clients' commands may run between these commands.
/// So the epoch is read last: if a new incarnation starts in between, the reply has its epoch.
pub(in crate::node::redis) fn node_command(
    server_kind: ServerKind,
    node_command: &NodeCommand,
    commands: &mut Commands,
) {
    if *node_command == NodeCommand::Look {
        commands.command("TIME");
        commands.command("HMGET").word(server_kind.meta_key()).words(&META_FIELDS);
        commands.command("GET").word(server_kind.epoch_key());
        return;
    }
    script_call(server_kind, node_command, commands);
}

/// Writes a node command as a script call, even if it is a look.
pub(in crate::node::redis) fn script_call(
    server_kind: ServerKind,
    node_command: &NodeCommand,
    commands: &mut Commands,
) {
    commands.script(server_kind.sha(Script::NodeCommand), 2).word(server_kind.epoch_key()).word(server_kind.meta_key());
    match node_command {
        NodeCommand::Look => commands.word("look"),
        NodeCommand::Hello { identity, fresh, constants, founders, trust } => {
            write_incarnation(commands.word("hello"), identity, *fresh, constants);
            commands.word(founders).word(floor_offset(*trust))
        }
        NodeCommand::Claim { epoch, elapsed_micros } => {
            commands.word("claim").word(hex(*epoch)).number(*elapsed_micros)
        }
        NodeCommand::Init { identity, fresh, constants } => {
            write_incarnation(commands.word("init"), identity, *fresh, constants)
        }
        NodeCommand::Reconfigure { identity, fresh, constants, trust, suspend } => {
            write_incarnation(commands.word("reconfigure"), identity, *fresh, constants);
            commands.word(floor_offset(*trust)).number(u64::from(*suspend))
        }
    };
}

fn floor_offset(trust: Trust) -> String {
    match trust {
        Trust::Quarantine => String::new(),
        Trust::Vote { floor_offset } => floor_offset.to_string(),
    }
}

/// Writes the arguments that every command that can start an incarnation has.
fn write_incarnation<'a>(
    commands: &'a mut Commands,
    identity: &Identity,
    fresh: Epoch,
    constants: &Constants,
) -> &'a mut Commands {
    let Constants { cluster, nodes, max_ttl_millis, max_skew_micros } = constants;
    commands.word(&identity.run).word(hex(fresh)).word(cluster).word(nodes.to_string());
    commands.number(*max_ttl_millis).number(*max_skew_micros).word(&identity.promotion)
}

/// The value of a missing field, as the script returns it.
static EMPTY: Value = Value::Text(Vec::new());

/// Parses the node's standing (its state after a command) from the first values of the reply to this command.
pub(in crate::node::redis) fn standing_after(
    node_command: &NodeCommand,
    values: &mut impl Iterator<Item = Value>,
) -> Result<Standing, Trouble> {
    let mut next = || checked(values.next().unwrap_or(Value::Nil));
    if *node_command != NodeCommand::Look {
        return standing(&next()?);
    }
    let (time, meta, epoch_text) = (next()?, next()?, next()?);
    let parsed = || {
        let words = [&epoch_text].into_iter().chain(meta.as_array()?);
        parse_standing(true, time_micros(&time)?, words.map(|word| if *word == Value::Nil { &EMPTY } else { word }))
    };
    parsed().ok_or_else(|| malformed("a look"))
}

/// Parses the reply to `TIME`, in microseconds.
pub(in crate::node::redis) fn time_micros(value: &Value) -> Option<u64> {
    let [seconds, micros] = value.as_array()? else { return None };
    let (seconds, micros): (u64, u64) = (seconds.as_str()?.parse().ok()?, micros.as_str()?.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

/// Parses the node's standing from the reply of the script `node.lua`.
pub(in crate::node::redis) fn standing(value: &Value) -> Result<Standing, Trouble> {
    let parsed = || match value.as_array()? {
        [accepted, at, words @ ..] => parse_standing(unsigned(accepted)? == 1, unsigned(at)?, words.iter()),
        _ => None,
    };
    parsed().ok_or_else(|| malformed("a node command"))
}

fn parse_standing<'a>(accepted: bool, at_micros: u64, words: impl Iterator<Item = &'a Value>) -> Option<Standing> {
    // Reject control characters: some of these values are shown to people.
    let word = |value: &'a Value| value.as_str().filter(|word| !word.contains(char::is_control));
    let words: Vec<&str> = words.map(word).collect::<Option<_>>()?;
    let [epoch_text, run, cluster, nodes, max_ttl, max_clock_skew, elapsed, founders, rest @ ..] = words.as_slice()
    else {
        return None;
    };
    let [quarantine, suspended, restarts, promotion] = *rest else { return None };
    let life = if cluster.is_empty() {
        None
    } else {
        let (epoch, floor) = parse_epoch_text(epoch_text)?;
        Some(Incarnation {
            identity: Identity { run: (*run).to_owned(), promotion: promotion.to_owned() },
            epoch,
            floor,
            quarantine_micros: quarantine.parse().ok()?,
            suspended: suspended == "1",
            elapsed_micros: elapsed.parse().ok()?,
            constants: Constants {
                cluster: (*cluster).to_owned(),
                nodes: nodes.parse().ok()?,
                max_ttl_millis: max_ttl.parse().ok()?,
                max_skew_micros: max_clock_skew.parse().ok()?,
            },
            founders: (*founders).to_owned(),
            restarts: restarts.parse().ok()?,
        })
    };
    Some(Standing { accepted, life, at_micros })
}

/// Parses the text of the epoch key: `epoch` during a quarantine, and `epoch floor` afterwards.
fn parse_epoch_text(epoch_text: &str) -> Option<(Option<Epoch>, Option<Fence>)> {
    if epoch_text.is_empty() {
        return Some((None, None));
    }
    let (epoch, floor) = match epoch_text.split_once(' ') {
        Some((epoch, floor)) => (epoch, Some(Fence::new(floor.parse().ok()?))),
        None => (epoch_text, None),
    };
    Some((Some(Epoch(u128::from_str_radix(epoch, 16).ok()?)), floor))
}
