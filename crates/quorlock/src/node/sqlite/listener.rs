//! Hints between sessions: rows that a release leaves for the first in line, and an ear for them while somebody waits.

use std::collections::HashMap;
use std::time::Duration;

use quorlock_core::node::NodeTime;
use quorlock_core::ticket::{Channel, ENTRY_LEASE, Hint, Line, Parting, Ticket, Waiter};
use quorlock_core::vote::{Refusal, Request, Vote};
use rusqlite::{Connection, params};

use crate::node::sqlite::column::{Column, stored};
use crate::node::sqlite::fault::Fault;
use crate::node::{Answer, Inbox, Letter, Reply};

/// How long a hint may go unnoticed while somebody waits.
pub(super) const NOTICE_WITHIN: Duration = Duration::from_millis(2);
/// No client's channel: nobody listens there.
const NOBODY: Channel = Channel(0);

/// One session's ear.
pub(super) struct Listener {
    inbox: Inbox,
    /// Who waits in line by way of this session, and until when the node keeps the place.
    waiters: HashMap<Ticket, u64>,
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
        Self { inbox, waiters: HashMap::new(), version: None, read: 0, told: None }
    }

    /// Whether anybody waits who could do with a hint.
    pub(super) fn is_needed(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Passes on what is for this client.
    pub(super) fn tell(&self, tickets: impl IntoIterator<Item = Ticket>) {
        tickets.into_iter().for_each(|ticket| self.inbox.take(Answer::Hint(ticket)));
    }

    /// Writes down a hint for another client; one for this client is given back, to be told after the commit.
    pub(super) fn leave(
        &self,
        transaction: &Connection,
        hint: Option<Hint>,
        now: NodeTime,
    ) -> Result<Option<Ticket>, Fault> {
        let Some(hint) = hint.filter(|hint| hint.channel != NOBODY) else { return Ok(None) };
        if hint.channel == self.inbox.channel {
            return Ok(Some(hint.ticket));
        }
        transaction
            .prepare_cached("INSERT INTO hint(channel, ticket, until) VALUES (?1, ?2, ?3)")?
            .execute(params![hint.channel.digits(), hint.ticket.to_string(), stored(lapse(now), "hint", "until")?])?;
        Ok(None)
    }

    /// Removes this client's hints that have been passed on. If nothing comes of it, the sweep does so.
    pub(super) fn tidy(&mut self, transaction: &Connection) -> Result<(), Fault> {
        let Some(told) = self.told.take() else { return Ok(()) };
        transaction
            .prepare_cached("DELETE FROM hint WHERE seq <= ?1 AND channel = ?2")?
            .execute(params![told, self.inbox.channel.digits()])?;
        Ok(())
    }

    /// Learns from a transaction that was committed who waits, and who no longer does.
    pub(super) fn learn<'a>(&mut self, answered: impl IntoIterator<Item = (&'a Letter, &'a Reply)>, now: NodeTime) {
        if self.inbox.channel == NOBODY {
            self.waiters.clear();
            return;
        }
        for (letter, reply) in answered {
            let Reply::Voted { vote, .. } = reply else { continue };
            match (&*letter.request, vote) {
                (Request::Acquire { waiter: Some(waiter), .. }, Vote::Refusal(refusal)) if is_in_line(refusal) => {
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

    /// Passes on what other sessions have left for this client, if any of them has committed anything since the last
    /// time: that costs no lock and hardly any time to find out.
    pub(super) fn listen(&mut self, connection: &Connection, now: NodeTime) {
        self.waiters.retain(|_, until| now.life_millis <= *until);
        if self.hear(connection, now).is_err_and(|fault| !fault.is_transient()) {
            // Without hints waiters ask again all the same, and whatever is wrong with the file, they are told then.
            self.waiters.clear();
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
        let mut rows = statement.query(params![self.read, stored(now.life_millis, "hint", "until")?])?;
        while let Some(row) = rows.next()? {
            let column = |index, name| Column { row, index, table: "hint", name };
            self.read = column(0, "seq").must(Column::value)?;
            if column(1, "channel").must(Column::value::<String>)? == own {
                self.told = Some(self.read);
                let ticket = column(2, "ticket").must(|ticket| ticket.parsed(Ticket::parse))?;
                self.inbox.take(Answer::Hint(ticket));
            }
        }
        self.version = Some(version);
        Ok(())
    }
}

/// Whether one who was refused so has a place in line now.
fn is_in_line(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Held { line: Line { place: Some(_), .. }, .. }
            | Refusal::Behind { line: Line { place: Some(_), .. }, .. }
    )
}

fn lapse(now: NodeTime) -> u64 {
    now.life_millis.saturating_add(ENTRY_LEASE.as_millis() as u64)
}
