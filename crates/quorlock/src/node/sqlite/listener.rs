//! Hints between sessions. A hint says that a lock may be free now, or that it was broken. A release writes a hint row
//! for the first waiter. A break writes one row that every session reads. Sessions with waiters or holders poll for
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

/// The longest delay until a hint is noticed while this session has a waiter.
pub(super) const NOTICE_WITHIN: Duration = Duration::from_millis(2);
/// The longest delay until a break is noticed while this session only holds.
const BREAK_NOTICE_WITHIN: Duration = Duration::from_millis(100);
/// The channel of hint rows for broken locks. Their ticket is the lock's key, and every session reads them.
pub(super) const BROKEN: &str = "broken";
/// The channel of sessions that receive no hints.
const NOBODY: Channel = Channel(0);

/// Reads hints for one session.
pub(super) struct Listener {
    inbox: Inbox,
    /// This session's waiters, and when the queue position of each expires.
    waiters: HashMap<Ticket, u64>,
    /// This session's leases, and when the vote of each expires unless it is renewed.
    holds: HashMap<LeaseId, u64>,
    /// The time of the last poll.
    looked: Instant,
    /// SQLite's `data_version` when hints were last read. It changes when another connection commits.
    version: Option<i64>,
    /// The last hint that was read, for any session.
    read: i64,
    /// The last hint that was delivered but not deleted yet.
    told: Option<i64>,
}

impl Listener {
    /// Creates a listener for this client's hints.
    pub(super) fn new(inbox: Inbox) -> Self {
        let (waiters, holds) = (HashMap::new(), HashMap::new());
        Self { inbox, waiters, holds, looked: Instant::now(), version: None, read: 0, told: None }
    }

    /// Returns the time until the next poll, or `None` if this session has no waiters and no holders.
    pub(super) fn due_in(&self) -> Option<Duration> {
        if !self.waiters.is_empty() {
            Some(NOTICE_WITHIN)
        } else if !self.holds.is_empty() {
            Some(BREAK_NOTICE_WITHIN.saturating_sub(self.looked.elapsed()))
        } else {
            None
        }
    }

    /// Returns whether a poll is due, even if the queue of questions is not empty.
    pub(super) fn is_due(&self) -> bool {
        !self.waiters.is_empty() || self.due_in() == Some(Duration::ZERO)
    }

    /// Writes a row that tells all other clients that a lock was broken. Returns the message for this client, to
    /// deliver after the commit.
    pub(super) fn announce(transaction: &Connection, key: &str, now: NodeTime) -> Result<Answer, Fault> {
        leave(transaction, BROKEN, key, now)?;
        Ok(Answer::Broken(key.into()))
    }

    /// Writes a hint that is for another client. Returns a hint that is for this client, to deliver after the commit.
    pub(super) fn leave(
        &self,
        transaction: &Connection,
        hint: Option<Waiter>,
        now: NodeTime,
    ) -> Result<Option<Answer>, Fault> {
        let Some(hint) = hint.filter(|hint| hint.channel != NOBODY) else { return Ok(None) };
        if hint.channel == self.inbox.channel {
            return Ok(Some(Answer::Hint(hint.ticket, None)));
        }
        leave(transaction, &hint.channel.digits(), &hint.ticket.to_string(), now)?;
        Ok(None)
    }

    /// Deletes this client's delivered hints. If the transaction fails, the sweep deletes them later.
    pub(super) fn tidy(&mut self, transaction: &Connection) -> Result<(), Fault> {
        let Some(told) = self.told.take() else { return Ok(()) };
        let sql = "DELETE FROM hint WHERE seq <= ?1 AND channel = ?2";
        run(transaction, sql, params![told, self.inbox.channel.digits()])
    }

    /// Updates the waiters and holders from the requests and replies of a committed transaction.
    pub(super) fn learn<'a>(&mut self, answered: impl IntoIterator<Item = (&'a Message, &'a Reply)>, now: NodeTime) {
        if self.inbox.channel == NOBODY {
            return;
        }
        for (message, reply) in answered {
            let Reply::Voted { vote, .. } = reply else { continue };
            let request = &*message.request;
            // The holds of a retired owner expire by themselves.
            if let Request::Release { attempt, .. } | Request::PlainRelease { attempt } = request {
                self.holds.remove(attempt);
            }
            if let (
                Request::Acquire { attempt, ttl, .. }
                | Request::Renew { attempt, ttl, .. }
                | Request::PlainAcquire { attempt, ttl }
                | Request::PlainExtend { attempt, ttl },
                Vote::Grant { .. },
            ) = (request, vote)
            {
                self.holds.insert(*attempt, now.life_millis.saturating_add(ttl.as_millis()));
            }
            match (request, vote) {
                (Request::Acquire { waiter: Some(waiter), .. }, Vote::Refusal(refusal)) if is_in_queue(refusal) => {
                    self.expect(*waiter, now);
                }
                (Request::Release { parting: Some(Parting::Yield(waiter)), .. }, Vote::Grant { .. }) => {
                    self.expect(*waiter, now);
                }
                (Request::Acquire { waiter: Some(waiter), .. }, Vote::Grant { .. })
                | (Request::Release { parting: Some(Parting::Leave(waiter)), .. }, _) => {
                    self.waiters.remove(&waiter.ticket);
                }
                _ => {}
            }
        }
    }

    fn expect(&mut self, waiter: Waiter, now: NodeTime) {
        if waiter.channel == self.inbox.channel {
            self.waiters.insert(waiter.ticket, lapse(now));
        }
    }

    /// Delivers hints that other sessions have written for this client. First checks whether another connection has
    /// committed anything. This check takes no lock and little time.
    pub(super) fn listen(&mut self, connection: &Connection, now: NodeTime) {
        self.looked = Instant::now();
        self.waiters.retain(|_, until| now.life_millis <= *until);
        self.holds.retain(|_, until| now.life_millis <= *until);
        if self.hear(connection, now).is_err_and(|fault| !fault.is_transient()) {
            // Waiters also retry without hints. If the file is damaged, their next request reports it.
            self.waiters.clear();
            self.holds.clear();
        }
    }

    fn hear(&mut self, connection: &Connection, now: NodeTime) -> Result<(), Fault> {
        // Read the version before the hints. Then a commit between the two reads is seen twice, and not missed.
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version == Some(version) {
            return Ok(());
        }
        let own = self.inbox.channel.digits();
        let sql = "SELECT seq, channel, ticket FROM hint WHERE seq > ?1 AND until >= ?2";
        read_all(connection, "hint", sql, (self.read, now.life_millis), |row| {
            self.read = row.get(0)?;
            let channel: String = row.get(1)?;
            if channel == BROKEN {
                self.inbox.deliver(Answer::Broken(row.get(2)?));
            } else if channel == own {
                self.told = Some(self.read);
                self.inbox.deliver(Answer::Hint(row.parsed(2, Ticket::parse)?, None));
            }
            Ok(())
        })?;
        self.version = Some(version);
        Ok(())
    }
}

/// Writes a hint row. The row expires after the same time as a queue position.
fn leave(transaction: &Connection, channel: &str, ticket: &str, now: NodeTime) -> Result<(), Fault> {
    let sql = "INSERT INTO hint(channel, ticket, until) VALUES (?1, ?2, ?3)";
    run(transaction, sql, params![channel, ticket, lapse(now)])
}

/// Returns whether a waiter that got this refusal is in the queue.
fn is_in_queue(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { queue: QueuePosition { place: Some(_), .. }, .. }
            | Refusal::Behind { queue: QueuePosition { place: Some(_), .. }, .. }
    )
}

fn lapse(now: NodeTime) -> u64 {
    now.life_millis.saturating_add(ENTRY_LEASE.as_millis() as u64)
}
