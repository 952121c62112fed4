//! Commands about the roster.

use quorlock_core::node::roster::{Electorate, RosterAnswer, RosterCommand};

use super::super::resp::{Commands, Value};
use super::super::scripts::{Script, ServerKind};
use super::super::trouble::{checked, malformed};
use super::{flag, time_micros, unsigned};
use crate::node::Trouble;
use crate::node::membership_text::{parse_membership, write_ballot, write_life, write_member_id, write_roster};

/// Writes a roster command. A read uses plain commands, because every connection sends one every few seconds and a
/// script costs a server several times as much.
pub(in crate::node::redis) fn roster_command(
    server_kind: ServerKind,
    command: &RosterCommand,
    commands: &mut Commands,
) {
    let (epoch_key, membership_key) = (server_kind.epoch_key(), server_kind.membership_key());
    if *command == RosterCommand::Read {
        commands.command("TIME");
        commands.command("MGET").word(epoch_key).word(membership_key);
        return;
    }
    commands.script(server_kind.sha(Script::Roster), 2).word(epoch_key).word(membership_key);
    match command {
        RosterCommand::Read => commands,
        RosterCommand::Identify { identity, member, life, floor_offset } => {
            commands.word("identify").word(&identity.run).word(&identity.promotion).word(write_member_id(*member));
            commands.word(write_life(*life)).word(floor_offset.to_string())
        }
        RosterCommand::Promise { promise, electorate } => {
            commands.word("promise").number(promise.generation).word(write_ballot(promise.ballot));
            commands.word(match electorate {
                Electorate::Members => "members",
                Electorate::Seats => "seats",
            })
        }
        RosterCommand::Accept(proposal) => {
            commands.word("accept").word(write_ballot(proposal.ballot)).word(write_roster(&proposal.roster))
        }
        RosterCommand::Install(roster) => commands.word("install").word(write_roster(roster)),
        RosterCommand::Settle { generation } => commands.word("settle").number(*generation),
        RosterCommand::Claim { life, since, elapsed_micros } => {
            commands.word("claim").word(write_life(*life)).number(*since).number(*elapsed_micros)
        }
    };
}

/// Parses the node's answer from the first values of a reply.
pub(in crate::node::redis) fn roster_answer_after(
    command: &RosterCommand,
    values: &mut impl Iterator<Item = Value>,
) -> Result<RosterAnswer, Trouble> {
    let mut next = || checked(values.next().unwrap_or(Value::Nil));
    if *command != RosterCommand::Read {
        return roster_answer(&next()?);
    }
    let (time, stored) = (next()?, next()?);
    let read = || match stored.as_array()? {
        [epoch_text, text] => {
            let membership = match (epoch_text, text) {
                // A node without one of the keys is blank.
                (Value::Nil, _) | (_, Value::Nil) => None,
                (epoch_text, text) => Some(parse_membership(epoch_text.as_str()?, text.as_str()?)?),
            };
            Some(RosterAnswer { accepted: true, membership, at_micros: time_micros(&time)? })
        }
        _ => None,
    };
    read().ok_or_else(|| malformed("a read of the roster"))
}

/// Parses the reply of the script.
pub(in crate::node::redis) fn roster_answer(value: &Value) -> Result<RosterAnswer, Trouble> {
    let parsed = || {
        let [accepted, at, epoch_text, text] = value.as_array()? else { return None };
        let membership = match (epoch_text.as_str()?, text.as_str()?) {
            ("", "") => None,
            (epoch_text, text) => Some(parse_membership(epoch_text, text)?),
        };
        Some(RosterAnswer { accepted: flag(accepted)?, membership, at_micros: unsigned(at)? })
    };
    parsed().ok_or_else(|| malformed("a roster command"))
}
