//! Parses the keys of a server into the core's state.

use std::collections::BTreeMap;
use std::time::Duration;

use ::redis::{FromRedisValue, Value, from_redis_value};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, OwnerId};
use quorlock_core::node::roster::Membership;
use quorlock_core::node::{Entry, Epoch, FenceNote, Incarnation, QueuedWaiter, Record, VoteNote};
use quorlock_core::request::{Request, Ticket, Waiter};
use quorlock_core::terms::{HeldMode, Mode};
use quorlock_core::time::Ttl;

use super::model::{State, attempts, owners};
use super::steps::NAMES;

/// The replies of the server, in the order of the keys.
pub(super) struct StoredValues {
    values: std::vec::IntoIter<Value>,
    millis: u64,
    /// The number of keys that exist.
    keys: usize,
}

type Read<T> = Result<T, TestCaseError>;

impl StoredValues {
    pub(super) fn new(values: Vec<Value>, millis: i64) -> Self {
        Self { values: values.into_iter(), millis: millis.unsigned_abs(), keys: 0 }
    }

    pub(super) fn state(mut self, life: Option<Incarnation>, membership: Option<Membership>) -> Read<State> {
        let mut records: [Record; NAMES] = Default::default();
        for (name, record) in records.iter_mut().enumerate() {
            *record = self.record(name)?;
        }
        let own_keys = self.next::<usize>() + self.next::<usize>();
        let known = self.keys + own_keys + usize::from(life.is_some());
        prop_assert_eq!(self.next::<usize>(), known, "the server has other keys");
        Ok(State { life, membership, records })
    }

    fn record(&mut self, name: usize) -> Read<Record> {
        let (text, vote) = self.note(vote)?.unzip();
        let (_, fence) = self.note(fence)?.unzip();
        let entries = self.entries(text.as_deref(), vote.as_ref())?;
        let queue = self.queue()?;
        let tombstones = attempts(name).filter_map(|attempt| Some((attempt, self.expiry()?))).collect();
        let retired = owners().filter_map(|owner| Some((owner, self.expiry()?))).collect();
        Ok(Record { vote, entries, fence, queue, tombstones, retired })
    }

    fn next<T: FromRedisValue>(&mut self) -> T {
        from_redis_value(self.values.next().unwrap()).unwrap()
    }

    /// Returns the millisecond in which a key expires; `None` if there is no such key. Every key must expire.
    fn expiry(&mut self) -> Option<u64> {
        let left: i64 = self.next();
        assert_ne!(left, -1, "a key without an expiry");
        self.keys += usize::from(left >= 0);
        u64::try_from(left).ok().map(|left| self.millis + left)
    }

    /// Returns the members of a sorted set, lowest score first. All scores are whole numbers.
    fn scores(&mut self) -> Vec<(String, u64)> {
        let members: Vec<(String, f64)> = self.next();
        members.into_iter().map(|(member, score)| (member, score as u64)).collect()
    }

    /// Returns a string, and the record that it stores.
    fn note<T>(&mut self, read: impl Fn(&str, u64) -> Option<T>) -> Read<Option<(String, T)>> {
        let (text, end): (Option<String>, _) = (self.next(), self.expiry());
        let Some(text) = text else { return Ok(None) };
        let note = end.and_then(|end| read(&text, end));
        prop_assert!(note.is_some(), "malformed: {:?}, until {:?}", text, end);
        Ok(note.map(|note| (text, note)))
    }

    fn entries(&mut self, text: Option<&str>, vote: Option<&VoteNote>) -> Read<Vec<Entry>> {
        let (mut fields, end): (BTreeMap<String, String>, _) = (self.next(), self.expiry());
        let held_mode = fields.remove("held_mode");
        prop_assert_eq!(held_mode.is_some(), end.is_some(), "the entries must have a held mode");
        let Some(vote) = vote.filter(|_| held_mode.as_deref() == text) else { return Ok(Vec::new()) };
        prop_assert_eq!(end, Some(vote.until), "the entries must expire with their vote");
        let mut entries = Vec::new();
        for (attempt, value) in &fields {
            let entry = entry(vote.held_mode, attempt, value);
            prop_assert!(entry.is_some(), "malformed: {:?} in {:?}", value, vote);
            entries.extend(entry.filter(|entry| entry.until >= self.millis));
        }
        entries.sort_by_key(|entry| entry.attempt);
        Ok(entries)
    }

    fn queue(&mut self) -> Read<Vec<QueuedWaiter>> {
        let (queue, queue_end) = (self.scores(), self.expiry());
        // This set may still contain waiters that have left the queue.
        let (kept, kept_end) = (self.scores(), self.expiry());
        prop_assert!(queue_end <= kept_end, "the queue expires later than the kept positions");
        let kept: BTreeMap<String, u64> = kept.into_iter().collect();
        // So may the requests of the waiters.
        let (asked, _): (BTreeMap<String, String>, _) = (self.next(), self.expiry());
        let mut queued = Vec::new();
        for (member, at) in queue {
            let waiter_at = waiter_at(&member, at).zip(kept.get(&member));
            prop_assert!(waiter_at.is_some(), "malformed: {:?} among {:?}", member, kept);
            let Some((waiter, until)) = waiter_at else { continue };
            let request = asked.get(&member).map(|text| kept_request(text, waiter));
            prop_assert!(request != Some(None), "malformed: {:?}", asked.get(&member));
            queued.push(QueuedWaiter { waiter, until: *until, request: request.flatten() });
        }
        queued.retain(|queued| queued.until >= self.millis);
        Ok(queued)
    }
}

fn vote(text: &str, until: u64) -> Option<VoteNote> {
    let words: Vec<&str> = text.split(' ').collect();
    let (attempt, held_mode) = match words[..] {
        [attempt] => (attempt, HeldMode::Exclusive),
        ["s", attempt] => (attempt, HeldMode::Shared),
        ["r", attempt, owner] => (attempt, HeldMode::Reentrant(OwnerId::parse(owner)?)),
        ["k", attempt, permits] => (attempt, HeldMode::Slots(permits.parse().ok()?)),
        _ => return None,
    };
    Some(VoteNote { attempt: LeaseId::parse(attempt)?, held_mode, until })
}

fn fence(text: &str, until: u64) -> Option<FenceNote> {
    let [fence, by, since, ticket, holder] = text.splitn(5, ' ').collect::<Vec<_>>().try_into().ok()?;
    Some(FenceNote {
        fence: Fence::new(fence.parse().ok()?),
        by: LeaseId::parse(by)?,
        since_micros: since.parse().ok()?,
        ticket: if ticket == "-" { None } else { Some(Ticket::parse(ticket)?) },
        holder: holder.into(),
        until,
    })
}

fn entry(held_mode: HeldMode, attempt: &str, value: &str) -> Option<Entry> {
    let [until, whose, fence] = value.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let fence = Fence::new(fence.parse().ok()?);
    let (owner, slot) = match held_mode {
        HeldMode::Exclusive => return None,
        HeldMode::Reentrant(_) | HeldMode::Shared => (Some(OwnerId::parse(whose)?), None),
        HeldMode::Slots(_) => (None, Some(whose.parse().ok()?)),
    };
    Some(Entry { attempt: LeaseId::parse(attempt)?, owner, slot, fence, until: until.parse().ok()? })
}

fn waiter_at(member: &str, at: u64) -> Option<Waiter> {
    let [id, kind, channel] = member.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let ticket = Ticket { at, id: Ticket::parse_id(id)? };
    let shared = matches!(kind, "s" | "x").then_some(kind == "s")?;
    Some(Waiter { ticket, channel: Channel::parse(channel)?, shared })
}

fn kept_request(text: &str, waiter: Waiter) -> Option<(Epoch, Request)> {
    let number = |at: usize| text.get(at..at + 16)?.parse::<u64>().ok();
    let (epoch, rest) = text.get(112..)?.split_once(' ')?;
    let (_floor, holder) = rest.split_once(' ')?;
    let request = Request::Acquire {
        attempt: LeaseId::parse(text.get(..32)?)?,
        proposal: Fence::new(number(32)?),
        ttl: Ttl::new(Duration::from_millis(number(48)?), Duration::MAX).ok()?,
        holder: holder.into(),
        mode: Mode::EXCLUSIVE,
        waiter: Some(waiter),
    };
    Some((Epoch(u128::from_str_radix(epoch, 16).ok()?), request))
}
