//! Hints between sessions. A hint says that a lock may be free now, or that a lock was broken. A release writes a hint
//! row for the first waiter. A break writes one row that every session reads. Sessions with waiters or leases poll for
//! these rows.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::NodeTime;
use quorlock_core::request::{ENTRY_LEASE, Parting, Request, Ticket, Waiter};
use quorlock_core::vote::{QueuePosition, Refusal, Vote};
use rusqlite::{Connection, params};

use crate::node::sqlite::column::{read_all, run};
use crate::node::sqlite::fault::Fault;
use crate::node::{Answer, Inbox, Message, Reply};

/// The time between two polls while this session has a waiter.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The time between two polls while this session has leases, but no waiter. Such a session needs only the hints that a
/// lock was broken.
const BREAK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The channel of hint rows for broken locks. Every session reads these rows. In such a row, the column `ticket`
/// contains the lock's key.
const BROKEN_CHANNEL: &str = "broken";
/// The channel of sessions that receive no hints.
const NO_CHANNEL: Channel = Channel(0);

/// Reads hints for one session.
pub(super) struct Listener {
    inbox: Inbox,
    /// This session's waiters, and when the queue position of each expires.
    waiters: HashMap<Ticket, u64>,
    /// This session's leases, and when the vote of each expires unless it is renewed.
    leases: HashMap<LeaseId, u64>,
    last_poll: Instant,
    /// SQLite's `data_version` when hints were last read. The version changes when another connection commits.
    version: Option<i64>,
    /// The number of the last hint row that was read, for any session.
    last_read: i64,
    /// The number of the last hint row that was delivered but not deleted yet.
    last_delivered: Option<i64>,
}

impl Listener {
    /// Creates a listener for this client's hints.
    pub(super) fn new(inbox: Inbox) -> Self {
        let (waiters, leases) = (HashMap::new(), HashMap::new());
        Self { inbox, waiters, leases, last_poll: Instant::now(), version: None, last_read: 0, last_delivered: None }
    }

    /// Returns the time until the next poll, or `None` if this session has no waiters and no leases.
    pub(super) fn next_poll_in(&self) -> Option<Duration> {
        if !self.waiters.is_empty() {
            Some(POLL_INTERVAL)
        } else if !self.leases.is_empty() {
            Some(BREAK_POLL_INTERVAL.saturating_sub(self.last_poll.elapsed()))
        } else {
            None
        }
    }

    /// Returns whether the session must poll even if the queue of questions is not empty.
    pub(super) fn is_poll_due(&self) -> bool {
        !self.waiters.is_empty() || self.next_poll_in() == Some(Duration::ZERO)
    }

    /// Writes a hint to all other clients that a lock was broken. Returns the same hint for this client, to deliver
    /// after the commit.
    pub(super) fn publish_break(transaction: &Connection, key: &str, now: NodeTime) -> Result<Answer, Fault> {
        write_hint(transaction, BROKEN_CHANNEL, key, now)?;
        Ok(Answer::Broken(key.into()))
    }

    /// Writes a hint for a waiter of another client. Returns a hint for a waiter of this client, to deliver after the
    /// commit.
    pub(super) fn publish_hint(
        &self,
        transaction: &Connection,
        waiter: Option<Waiter>,
        now: NodeTime,
    ) -> Result<Option<Answer>, Fault> {
        let Some(waiter) = waiter.filter(|waiter| waiter.channel != NO_CHANNEL) else { return Ok(None) };
        if waiter.channel == self.inbox.channel {
            return Ok(Some(Answer::Hint(waiter.ticket, None)));
        }
        write_hint(transaction, &waiter.channel.digits(), &waiter.ticket.to_string(), now)?;
        Ok(None)
    }

    /// Deletes the hints that were delivered to this client. If the transaction fails, a sweep deletes these hints
    /// later.
    pub(super) fn delete_delivered(&mut self, transaction: &Connection) -> Result<(), Fault> {
        let Some(last) = self.last_delivered.take() else { return Ok(()) };
        let sql = "DELETE FROM hint WHERE seq <= ?1 AND channel = ?2";
        run(transaction, sql, params![last, self.inbox.channel.digits()])
    }

    /// Updates the waiters and leases from the requests and replies of a committed transaction.
    pub(super) fn update<'a>(&mut self, answered: impl IntoIterator<Item = (&'a Message, &'a Reply)>, now: NodeTime) {
        if self.inbox.channel == NO_CHANNEL {
            return;
        }
        for (message, reply) in answered {
            let Reply::Voted { vote, .. } = reply else { continue };
            let request = &*message.request;
            // Leases of a retired owner stay until they expire, which costs only some polls.
            if let Request::Release { attempt, .. } | Request::PlainRelease { attempt } = request {
                self.leases.remove(attempt);
            }
            if let (
                Request::Acquire { attempt, ttl, .. }
                | Request::Renew { attempt, ttl, .. }
                | Request::PlainAcquire { attempt, ttl }
                | Request::PlainExtend { attempt, ttl },
                Vote::Grant { .. },
            ) = (request, vote)
            {
                self.leases.insert(*attempt, now.life_millis.saturating_add(ttl.as_millis()));
            }
            match (request, vote) {
                (Request::Acquire { waiter: Some(waiter), .. }, Vote::Refusal(refusal)) if is_in_queue(refusal) => {
                    self.add_waiter(*waiter, now);
                }
                (Request::Release { parting: Some(Parting::Yield(waiter)), .. }, Vote::Grant { .. }) => {
                    self.add_waiter(*waiter, now);
                }
                (Request::Acquire { waiter: Some(waiter), .. }, Vote::Grant { .. })
                | (Request::Release { parting: Some(Parting::Leave(waiter)), .. }, _) => {
                    self.waiters.remove(&waiter.ticket);
                }
                _ => {}
            }
        }
    }

    fn add_waiter(&mut self, waiter: Waiter, now: NodeTime) {
        if waiter.channel == self.inbox.channel {
            self.waiters.insert(waiter.ticket, position_end(now));
        }
    }

    /// Delivers hints that other sessions have written for this client.
    pub(super) fn poll(&mut self, connection: &Connection, now: NodeTime) {
        self.last_poll = Instant::now();
        self.waiters.retain(|_, until| now.life_millis <= *until);
        self.leases.retain(|_, until| now.life_millis <= *until);
        if self.read_hints(connection, now).is_err_and(|fault| !fault.is_transient()) {
            // Waiters also retry without hints. If the file is damaged, the next request reports the damage.
            self.waiters.clear();
            self.leases.clear();
        }
    }

    fn read_hints(&mut self, connection: &Connection, now: NodeTime) -> Result<(), Fault> {
        // Reading the version takes no lock and little time. Read the version before the hints: a commit between the
        // two reads then causes a second read of the hints, and no hint is missed.
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version == Some(version) {
            return Ok(());
        }
        let own = self.inbox.channel.digits();
        let sql = "SELECT seq, channel, ticket FROM hint WHERE seq > ?1 AND until >= ?2";
        read_all(connection, "hint", sql, (self.last_read, now.life_millis), |row| {
            self.last_read = row.get(0)?;
            let channel: String = row.get(1)?;
            if channel == BROKEN_CHANNEL {
                self.inbox.deliver(Answer::Broken(row.get(2)?));
            } else if channel == own {
                self.last_delivered = Some(self.last_read);
                self.inbox.deliver(Answer::Hint(row.parsed(2, Ticket::parse)?, None));
            }
            Ok(())
        })?;
        self.version = Some(version);
        Ok(())
    }
}

/// Writes a hint row. The row expires after the same time as a queue position.
fn write_hint(transaction: &Connection, channel: &str, ticket: &str, now: NodeTime) -> Result<(), Fault> {
    let sql = "INSERT INTO hint(channel, ticket, until) VALUES (?1, ?2, ?3)";
    run(transaction, sql, params![channel, ticket, position_end(now)])
}

/// Returns whether a waiter whose request was refused for this reason is in the queue.
fn is_in_queue(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { queue: QueuePosition { position: Some(_), .. }, .. }
            | Refusal::Behind { queue: QueuePosition { position: Some(_), .. }, .. }
    )
}

/// Returns when a queue position that is taken or extended now will expire.
fn position_end(now: NodeTime) -> u64 {
    now.life_millis.saturating_add(ENTRY_LEASE.as_millis() as u64)
}
