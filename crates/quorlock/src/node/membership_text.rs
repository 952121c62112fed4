//! A membership as text, as Redis and SQLite nodes store it. The parsers accept only what the writers write.
//!
//! A membership is a text of nine lines, and the text of its epoch: `<epoch>`, or `<epoch> <floor>` if the node may
//! vote. A roster is one line of fields that tabs separate: the numbers, the members of the generation before, the key
//! template, and one field for each member. Ids and ballots are hexadecimal digits, so that a Lua script finds a member
//! by its id.

use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;

use quorlock_core::fence::Fence;
use quorlock_core::name::hex_digits;
use quorlock_core::node::roster::{
    Ballot, ClusterId, Life, Member, Membership, Promise, Proposal, Quarantine, Roster, Settings,
};
use quorlock_core::node::{Epoch, Identity};
use quorlock_core::quorum::MemberId;

/// Writes a roster.
pub(crate) fn write_roster(roster: &Roster) -> String {
    let Roster { cluster, generation, members, before, settings, longest_ttl_millis } = roster;
    let Settings { max_ttl_millis, max_skew_micros, key_template, trusts_restarts } = settings;
    let before: Vec<String> = before.iter().map(|id| write_member_id(*id)).collect();
    let mut text = format!(
        "{:032x} {generation} {max_ttl_millis} {max_skew_micros} {} {longest_ttl_millis}\t{}\t{key_template}",
        cluster.0,
        u8::from(*trusts_restarts),
        before.join(" "),
    );
    for Member { id, address, since } in members {
        // Writing to a string cannot fail.
        let _ = write!(text, "\t{:032x} {since} {address}", id.0);
    }
    text
}

/// Parses the text of [`write_roster`]. Does not check the number of members and their settings.
pub(crate) fn parse_roster(text: &str) -> Option<Roster> {
    let mut fields = text.split('\t');
    let numbers: Vec<&str> = fields.next()?.split(' ').collect();
    let [cluster, generation, max_ttl, max_skew, trusts, longest_ttl] = numbers[..] else { return None };
    let before = optional(fields.next()?, |ids| ids.split(' ').map(parse_member_id).collect())?;
    let settings = Settings {
        max_ttl_millis: parse_number(max_ttl)?,
        max_skew_micros: parse_number(max_skew)?,
        key_template: parse_text(fields.next()?)?,
        trusts_restarts: parse_flag(trusts)?,
    };
    let members: Vec<Member> = fields.map(parse_member).collect::<Option<_>>()?;
    let generation = parse_number(generation).filter(|generation| *generation > 0)?;
    let (cluster, longest_ttl_millis) = (ClusterId(hex_digits::<32>(cluster)?), parse_number(longest_ttl)?);
    let roster =
        Roster { cluster, generation, members, before: before.unwrap_or_default(), settings, longest_ttl_millis };
    Some(roster).filter(|roster| !roster.members.is_empty())
}

fn parse_member(text: &str) -> Option<Member> {
    let [id, since, address] = split(text)?;
    Some(Member { id: parse_member_id(id)?, address: parse_text(address)?, since: parse_number(since)? })
}

/// Writes a membership without its life, generation and floor.
pub(crate) fn write_membership(membership: &Membership) -> String {
    let Membership { identity, member, former, roster, is_settled, promised, accepted, quarantine, .. } = membership;
    let id = |id: &Option<MemberId>| id.map(write_member_id).unwrap_or_default();
    let promised = promised.map(|Promise { generation, ballot }| format!("{generation} {}", write_ballot(ballot)));
    let quarantine =
        quarantine.map(|Quarantine { since, micros, elapsed_micros }| format!("{since} {micros} {elapsed_micros}"));
    let accepted = accepted
        .as_ref()
        .map(|Proposal { ballot, roster }| format!("{} {}", write_ballot(*ballot), write_roster(roster)));
    [
        identity.run.clone(),
        identity.promotion.clone(),
        id(member),
        id(former),
        u8::from(*is_settled).to_string(),
        promised.unwrap_or_default(),
        quarantine.unwrap_or_default(),
        roster.as_deref().map(write_roster).unwrap_or_default(),
        accepted.unwrap_or_default(),
    ]
    .join("\n")
}

/// Writes the rest of a membership: its life, generation and floor.
pub(crate) fn write_epoch(membership: &Membership) -> String {
    let epoch = membership.epoch().0;
    match membership.floor {
        Some(floor) => format!("{epoch:032x} {}", floor.get()),
        None => format!("{epoch:032x}"),
    }
}

/// Parses the texts of [`write_epoch`] and [`write_membership`].
pub(crate) fn parse_membership(epoch_text: &str, text: &str) -> Option<Membership> {
    let (epoch, floor) = match epoch_text.split_once(' ') {
        Some((epoch, floor)) => (epoch, Some(parse_fence(floor)?)),
        None => (epoch_text, None),
    };
    let epoch = Epoch(hex_digits::<32>(epoch)?);
    let lines: Vec<&str> = text.split('\n').collect();
    let [run, promotion, member, former, is_settled, promised, quarantine, roster, accepted] = lines[..] else {
        return None;
    };
    if [run, promotion].iter().any(|word| word.contains(char::is_control)) {
        return None;
    }
    let membership = Membership {
        identity: Identity { run: run.to_owned(), promotion: promotion.to_owned() },
        member: optional(member, parse_member_id)?,
        former: optional(former, parse_member_id)?,
        life: epoch.life(),
        roster: optional(roster, parse_roster)?.map(Arc::new),
        is_settled: parse_flag(is_settled)?,
        promised: optional(promised, parse_promise)?,
        accepted: optional(accepted, parse_proposal)?,
        floor,
        quarantine: optional(quarantine, parse_quarantine)?,
    };
    Some(membership).filter(|membership| membership.generation() == epoch.generation())
}

fn parse_promise(text: &str) -> Option<Promise> {
    let (generation, ballot) = text.split_once(' ')?;
    Some(Promise { generation: parse_number(generation)?, ballot: parse_ballot(ballot)? })
}

fn parse_proposal(text: &str) -> Option<Proposal> {
    let (ballot, roster) = text.split_once(' ')?;
    Some(Proposal { ballot: parse_ballot(ballot)?, roster: Arc::new(parse_roster(roster)?) })
}

fn parse_quarantine(text: &str) -> Option<Quarantine> {
    let [since, micros, elapsed_micros] = split(text)?;
    Some(Quarantine {
        since: parse_number(since)?,
        micros: parse_number(micros)?,
        elapsed_micros: parse_number(elapsed_micros)?,
    })
}

/// Writes a member's id: 32 digits.
pub(crate) fn write_member_id(id: MemberId) -> String {
    format!("{:032x}", id.0)
}

fn parse_member_id(text: &str) -> Option<MemberId> {
    hex_digits::<32>(text).map(MemberId)
}

/// Writes a life: 16 digits.
pub(crate) fn write_life(life: Life) -> String {
    format!("{:016x}", life.0)
}

/// Writes a ballot: 32 digits, which have the order of the ballots.
pub(crate) fn write_ballot(ballot: Ballot) -> String {
    format!("{:016x}{:016x}", ballot.round, ballot.bits)
}

fn parse_ballot(text: &str) -> Option<Ballot> {
    let digits = hex_digits::<32>(text)?;
    Some(Ballot { round: (digits >> 64) as u64, bits: digits as u64 })
}

fn parse_fence(text: &str) -> Option<Fence> {
    let number = parse_number(text)?;
    Some(Fence::new(number)).filter(|fence| fence.get() == number)
}

/// Parses a number without a sign or leading zeros.
fn parse_number(text: &str) -> Option<u64> {
    let number = u64::from_str(text).ok()?;
    Some(number).filter(|number| number.to_string() == text)
}

fn parse_flag(text: &str) -> Option<bool> {
    matches!(text, "0" | "1").then(|| text == "1")
}

/// Parses text for people, which must not contain control characters.
fn parse_text(text: &str) -> Option<Arc<str>> {
    (!text.contains(char::is_control)).then(|| text.into())
}

/// Splits a text at its first two spaces.
fn split(text: &str) -> Option<[&str; 3]> {
    text.splitn(3, ' ').collect::<Vec<_>>().try_into().ok()
}

/// Parses a text whose absence is written as an empty text.
#[expect(clippy::option_option, reason = "the outer option tells whether the text is well-formed")]
fn optional<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

#[cfg(test)]
mod tests;
