//! Hints between sessions: rows that a release leaves for the first waiter, and a break for everybody; and an ear for
//! them while somebody waits or holds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use quorlock_core::name::LeaseId;
use quorlock_core::node::NodeTime;
use quorlock_core::ticket::{Channel, ENTRY_LEASE, Parting, QueuePosition, Ticket, Waiter};
use quorlock_core::vote::{Refusal, Request, Vote};
use rusqlite::{Connection, params};

use crate::node::sqlite::column::{Column, run};
use crate::node::sqlite::fault::Fault;
use crate::node::{Answer, Inbox, Message, Reply};

/// How long a hint may go unnoticed while somebody waits.
pub(super) const NOTICE_WITHIN: Duration = Duration::from_millis(2);
/// How long a break may go unnoticed while somebody holds, and nobody waits.
const BREAK_NOTICE_WITHIN: Duration = Duration::from_millis(100);
/// In place of a channel: a lock was broken, and the ticket is its key. Everybody listens to that.
pub(super) const BROKEN: &str = "broken";
/// No client's channel: nobody listens there.
const NOBODY: Channel = Channel(0);

/// One session's ear.
pub(super) struct Listener {
    inbox: Inbox,
    /// Who waits in the queue by way of this session, and until when the node keeps the place.
    waiters: HashMap<Ticket, u64>,
    /// Who holds by way of this session, and until when unless it is renewed.
    holds: HashMap<LeaseId, u64>,
    /// When the file was last looked at.
    looked: Instant,
    /// SQLite's count of other connections' commits, when the hints were last read.
    version: Option<i64>,
    /// The last hint that was read, whoever it was for.
    read: i64,
    /// The last hint that was passed on and is still in the file.
    told: Option<i64>,
}

impl Listener {
    /// An ear for this client's hints.
    pub(super) fn new(inbox: Inbox) -> Self {
        let (waiters, holds) = (HashMap::new(), HashMap::new());
        Self { inbox, waiters, holds, looked: Instant::now(), version: None, read: 0, told: None }
    }

    /// In what time to look again, if there is anybody who could do with a hint.
    pub(super) fn due_in(&self) -> Option<Duration> {
        if !self.waiters.is_empty() {
            Some(NOTICE_WITHIN)
        } else if !self.holds.is_empty() {
            Some(BREAK_NOTICE_WITHIN.saturating_sub(self.looked.elapsed()))
        } else {
            None
        }
    }

    /// Whether a look must not wait for the queue to be empty.
    pub(super) fn is_due(&self) -> bool {
        !self.waiters.is_empty() || self.due_in() == Some(Duration::ZERO)
    }

    /// Passes on what is for this client.
    pub(super) fn tell(&self, hints: impl IntoIterator<Item = Answer>) {
        hints.into_iter().for_each(|hint| self.inbox.take(hint));
    }

    /// Writes down for all clients that a lock was broken; this one is to be told after the commit.
    pub(super) fn announce(transaction: &Connection, key: &str, now: NodeTime) -> Result<Answer, Fault> {
        leave(transaction, BROKEN, key, now)?;
        Ok(Answer::Broken(key.into()))
    }

    /// Writes down a hint for another client; one for this client is given back, to be told after the commit.
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

    /// Removes this client's hints that have been passed on. If nothing comes of it, the sweep does so.
    pub(super) fn tidy(&mut self, transaction: &Connection) -> Result<(), Fault> {
        let Some(told) = self.told.take() else { return Ok(()) };
        let sql = "DELETE FROM hint WHERE seq <= ?1 AND channel = ?2";
        run(transaction, sql, params![told, self.inbox.channel.digits()])
    }

    /// Learns from a transaction that was committed who waits and who holds, and who no longer does.
    pub(super) fn learn<'a>(&mut self, answered: impl IntoIterator<Item = (&'a Message, &'a Reply)>, now: NodeTime) {
        if self.inbox.channel == NOBODY {
            return;
        }
        for (message, reply) in answered {
            let Reply::Voted { vote, .. } = reply else { continue };
            self.learn_of_hold(&message.request, vote, now);
            match (&*message.request, vote) {
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

    fn learn_of_hold(&mut self, request: &Request, vote: &Vote, now: NodeTime) {
        match request {
            Request::Acquire { attempt, ttl, .. }
            | Request::Renew { attempt, ttl, .. }
            | Request::PlainAcquire { attempt, ttl }
            | Request::PlainExtend { attempt, ttl } => {
                if let Vote::Grant { .. } = vote {
                    self.holds.insert(*attempt, now.life_millis.saturating_add(ttl.as_millis()));
                }
            }
            Request::Release { attempt, .. } | Request::PlainRelease { attempt } => drop(self.holds.remove(attempt)),
            // Of those that an owner has, what was not released lapses.
            Request::Inspect | Request::Check { .. } | Request::Break { .. } | Request::Retire { .. } => {}
        }
    }

    fn expect(&mut self, waiter: Waiter, now: NodeTime) {
        if waiter.channel == self.inbox.channel {
            self.waiters.insert(waiter.ticket, lapse(now));
        }
    }

    /// Passes on what other sessions have left for this client, if any of them has committed anything since the last
    /// time: that costs no lock and hardly any time to find out.
    pub(super) fn listen(&mut self, connection: &Connection, now: NodeTime) {
        self.looked = Instant::now();
        self.waiters.retain(|_, until| now.life_millis <= *until);
        self.holds.retain(|_, until| now.life_millis <= *until);
        if self.hear(connection, now).is_err_and(|fault| !fault.is_transient()) {
            // Without hints people ask again all the same, and whatever is wrong with the file, they are told then.
            self.waiters.clear();
            self.holds.clear();
        }
    }

    fn hear(&mut self, connection: &Connection, now: NodeTime) -> Result<(), Fault> {
        // Read before the hints: what is committed in between is looked at twice rather than never.
        let version = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version == Some(version) {
            return Ok(());
        }
        let own = self.inbox.channel.digits();
        let mut statement =
            connection.prepare_cached("SELECT seq, channel, ticket FROM hint WHERE seq > ?1 AND until >= ?2")?;
        let mut rows = statement.query(params![self.read, now.life_millis])?;
        while let Some(row) = rows.next()? {
            let column = |index, name| Column { row, index, table: "hint", name };
            self.read = column(0, "seq").must(Column::value)?;
            let channel = column(1, "channel").must(Column::value::<String>)?;
            if channel == BROKEN {
                self.inbox.take(Answer::Broken(column(2, "ticket").must(Column::value)?));
            } else if channel == own {
                self.told = Some(self.read);
                let ticket = column(2, "ticket").must(|ticket| ticket.parsed(Ticket::parse))?;
                self.inbox.take(Answer::Hint(ticket, None));
            }
        }
        self.version = Some(version);
        Ok(())
    }
}

/// Leaves a row for others, which is kept no longer than a place in the queue.
fn leave(transaction: &Connection, channel: &str, ticket: &str, now: NodeTime) -> Result<(), Fault> {
    let sql = "INSERT INTO hint(channel, ticket, until) VALUES (?1, ?2, ?3)";
    run(transaction, sql, params![channel, ticket, lapse(now)])
}

/// Whether one who was refused so has a place in the queue now.
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
