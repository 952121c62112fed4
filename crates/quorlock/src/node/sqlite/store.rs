//! The tables, and what the core's rules need of them.

use quorlock_core::fence::Fence;
use quorlock_core::name::LeaseId;
use quorlock_core::node::{Constants, Epoch, FenceNote, Incarnation, NodeTime, Record, VoteNote};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::node::sqlite::fault::Fault;

/// How many records, and how many tombstones, a sweep looks at.
pub(super) const SWEEP_MAX: u32 = 1_000;

const SCHEMA: &str = "
    CREATE TABLE node(
        id INTEGER PRIMARY KEY CHECK(id = 1), reserve INTEGER NOT NULL, sure INTEGER NOT NULL, swept TEXT NOT NULL,
        run TEXT, epoch TEXT, floor INTEGER, witnessed INTEGER, witness TEXT, witness_seen INTEGER,
        cluster TEXT, nodes INTEGER, max_ttl INTEGER, sigma INTEGER, founders TEXT
    ) STRICT;
    CREATE TABLE record(
        key TEXT PRIMARY KEY, vote TEXT, vote_until INTEGER,
        fence INTEGER, fence_by TEXT, since INTEGER, holder TEXT, fence_until INTEGER
    ) WITHOUT ROWID, STRICT;
    CREATE TABLE tombstone(attempt TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID, STRICT;
    CREATE INDEX tombstone_until ON tombstone(until);";

/// What the file says of the node as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeNote {
    /// Above every fence ever granted. On the disk before [`sure`](Self::sure) says so.
    pub(super) reserve: u64,
    /// A reserve that is known to be on the disk. After a crash of the process that raised it, the reserve itself may be
    /// seen by others without ever having got there.
    pub(super) sure: u64,
    /// The last key that the sweep has come to.
    pub(super) swept: String,
    /// What the node knows about itself; `None` when it is blank.
    pub(super) life: Option<Incarnation>,
}

impl NodeNote {
    /// A fence below this can be forgotten: no later one will be so low.
    pub(super) fn forgettable(&self, now: NodeTime) -> Fence {
        self.life.as_ref().map_or(Fence::default(), |life| {
            let clock = Fence::new(now.wall_micros.saturating_sub(life.constants.sigma_micros));
            life.floor.unwrap_or_default().max(clock)
        })
    }
}

/// Makes the tables of a new file.
pub(super) fn create(connection: &Connection, reserve: u64) -> Result<(), Fault> {
    connection.execute_batch(SCHEMA)?;
    connection.execute(
        "INSERT INTO node(id, reserve, sure, swept) VALUES (1, ?1, 0, '')",
        params![stored(reserve, "node", "reserve")?],
    )?;
    Ok(())
}

/// Reads what the file says of the node as a whole.
pub(super) fn load_node(connection: &Connection) -> Result<NodeNote, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT reserve, sure, swept, run, epoch, floor, witnessed, witness, witness_seen,
            cluster, nodes, max_ttl, sigma, founders FROM node WHERE id = 1",
    )?;
    let mut rows = statement.query([])?;
    let row = rows.next()?.ok_or(Fault::Damaged { table: "node", column: "id" })?;
    let column = |index, name| Column { row, index, table: "node", name };
    let life = match column(3, "run").value::<String>()? {
        None => None,
        Some(run) => Some(Incarnation {
            run,
            epoch: column(4, "epoch").bits()?.map(Epoch),
            floor: column(5, "floor").fence()?,
            witnessed_micros: column(6, "witnessed").must(Column::number)?,
            witness: match column(7, "witness").bits()? {
                None => None,
                Some(witness) => Some((witness, column(8, "witness_seen").must(Column::number)?)),
            },
            constants: Constants {
                cluster: column(9, "cluster").must(Column::value)?,
                nodes: column(10, "nodes").must(Column::number)? as usize,
                max_ttl_millis: column(11, "max_ttl").must(Column::number)?,
                sigma_micros: column(12, "sigma").must(Column::number)?,
            },
            founders: column(13, "founders").must(Column::value)?,
        }),
    };
    Ok(NodeNote {
        reserve: column(0, "reserve").must(Column::number)?,
        sure: column(1, "sure").must(Column::number)?,
        swept: column(2, "swept").must(Column::value)?,
        life,
    })
}

/// Writes what has changed about the node as a whole.
pub(super) fn save_node(connection: &Connection, before: &NodeNote, node: &NodeNote) -> Result<(), Fault> {
    if before == node {
        return Ok(());
    }
    let number = |value: u64, column| stored(value, "node", column);
    connection.prepare_cached("UPDATE node SET reserve = ?1, sure = ?2, swept = ?3 WHERE id = 1")?.execute(params![
        number(node.reserve, "reserve")?,
        number(node.sure, "sure")?,
        node.swept
    ])?;
    let Some(life) = node.life.as_ref().filter(|_| before.life != node.life) else { return Ok(()) };
    let constants = &life.constants;
    connection
        .prepare_cached(
            "UPDATE node SET run = ?1, epoch = ?2, floor = ?3, witnessed = ?4, witness = ?5, witness_seen = ?6,
                cluster = ?7, nodes = ?8, max_ttl = ?9, sigma = ?10, founders = ?11 WHERE id = 1",
        )?
        .execute(params![
            life.run,
            life.epoch.map(|epoch| hex(epoch.0)),
            life.floor.map(|floor| number(floor.get(), "floor")).transpose()?,
            number(life.witnessed_micros, "witnessed")?,
            life.witness.map(|(witness, _)| hex(witness)),
            life.witness.map(|(_, seen)| number(seen, "witness_seen")).transpose()?,
            constants.cluster,
            number(constants.nodes as u64, "nodes")?,
            number(constants.max_ttl_millis, "max_ttl")?,
            number(constants.sigma_micros, "sigma")?,
            life.founders,
        ])?;
    Ok(())
}

/// Forgets all votes, fences and tombstones.
pub(super) fn wipe(connection: &Connection) -> Result<(), Fault> {
    connection.prepare_cached("DELETE FROM record")?.execute([])?;
    connection.prepare_cached("DELETE FROM tombstone")?.execute([])?;
    Ok(())
}

/// Reads a name's record, without the tombstone of any attempt.
pub(super) fn load_record(connection: &Connection, key: &str) -> Result<Record, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT vote, vote_until, fence, fence_by, since, holder, fence_until FROM record WHERE key = ?1",
    )?;
    let mut rows = statement.query(params![key])?;
    let Some(row) = rows.next()? else { return Ok(Record::default()) };
    let column = |index, name| Column { row, index, table: "record", name };
    let vote = match column(0, "vote").attempt()? {
        None => None,
        Some(attempt) => Some(VoteNote { attempt, period: quorlock_core::mode::Period::Exclusive, until: column(1, "vote_until").must(Column::number)? }),
    };
    let fence = match column(2, "fence").fence()? {
        None => None,
        Some(fence) => Some(FenceNote {
            fence,
            by: column(3, "fence_by").must(Column::attempt)?,
            since_micros: column(4, "since").must(Column::number)?,
            ticket: None,
            holder: column(5, "holder").must(Column::value)?,
            until: column(6, "fence_until").must(Column::number)?,
        }),
    };
    Ok(Record { vote, fence, ..Record::default() })
}

/// Writes a name's record, without its tombstone. One that says nothing is removed.
pub(super) fn save_record(connection: &Connection, key: &str, record: &Record) -> Result<(), Fault> {
    let (vote, fence) = (record.vote.as_ref(), record.fence.as_ref());
    if vote.is_none() && fence.is_none() {
        connection.prepare_cached("DELETE FROM record WHERE key = ?1")?.execute(params![key])?;
        return Ok(());
    }
    let number = |value: u64, column| stored(value, "record", column);
    connection
        .prepare_cached(
            "REPLACE INTO record(key, vote, vote_until, fence, fence_by, since, holder, fence_until)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            key,
            vote.map(|vote| vote.attempt.reveal()),
            vote.map(|vote| number(vote.until, "vote_until")).transpose()?,
            fence.map(|note| number(note.fence.get(), "fence")).transpose()?,
            fence.map(|note| note.by.reveal()),
            fence.map(|note| number(note.since_micros, "since")).transpose()?,
            fence.map(|note| &note.holder),
            fence.map(|note| number(note.until, "fence_until")).transpose()?,
        ])?;
    Ok(())
}

/// Reads until when an attempt is over here.
pub(super) fn load_tombstone(connection: &Connection, attempt: LeaseId) -> Result<Option<u64>, Fault> {
    let mut statement = connection.prepare_cached("SELECT until FROM tombstone WHERE attempt = ?1")?;
    let mut rows = statement.query(params![attempt.reveal()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Column { row, index: 0, table: "tombstone", name: "until" }.number()
}

/// Writes until when an attempt is over here.
pub(super) fn save_tombstone(connection: &Connection, attempt: LeaseId, until: u64) -> Result<(), Fault> {
    // The client says how long; the longest that can be written down is as good as for ever.
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    connection
        .prepare_cached("REPLACE INTO tombstone(attempt, until) VALUES (?1, ?2)")?
        .execute(params![attempt.reveal(), until])?;
    Ok(())
}

/// Removes what has lapsed among the next records after the last sweep's, and among the oldest tombstones.
pub(super) fn sweep(connection: &Connection, node: &mut NodeNote, now: NodeTime) -> Result<(), Fault> {
    let life_millis = stored(now.life_millis, "record", "vote_until")?;
    let forgettable = stored(node.forgettable(now).get(), "record", "fence")?;
    let last = connection
        .prepare_cached("SELECT key FROM record WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2")?
        .query_row(params![node.swept, SWEEP_MAX - 1], |row| row.get::<_, String>(0))
        .optional()?;
    connection
        .prepare_cached(
            "DELETE FROM record WHERE key IN (SELECT key FROM record WHERE key > ?1 ORDER BY key LIMIT ?2)
                AND (vote_until IS NULL OR vote_until < ?3)
                AND (fence_until IS NULL OR (fence_until < ?3 AND fence < ?4))",
        )?
        .execute(params![node.swept, SWEEP_MAX, life_millis, forgettable])?;
    node.swept = last.unwrap_or_default();
    connection
        .prepare_cached(
            "DELETE FROM tombstone WHERE attempt IN
                (SELECT attempt FROM tombstone WHERE until < ?1 ORDER BY until LIMIT ?2)",
        )?
        .execute(params![life_millis, SWEEP_MAX])?;
    Ok(())
}

/// One value of a row, and where it stands.
#[derive(Clone, Copy)]
struct Column<'a> {
    row: &'a Row<'a>,
    index: usize,
    table: &'static str,
    name: &'static str,
}

impl Column<'_> {
    /// Whatever was read, it cannot be missing.
    fn must<T>(self, read: impl FnOnce(Self) -> Result<Option<T>, Fault>) -> Result<T, Fault> {
        read(self)?.ok_or(self.damage())
    }

    fn value<T: FromSql>(self) -> Result<Option<T>, Fault> {
        self.row.get(self.index).map_err(|_| self.damage())
    }

    fn number(self) -> Result<Option<u64>, Fault> {
        self.value::<i64>()?.map(|value| u64::try_from(value).map_err(|_| self.damage())).transpose()
    }

    fn fence(self) -> Result<Option<Fence>, Fault> {
        let fence = |value| Some(Fence::new(value)).filter(|fence| fence.get() == value);
        self.number()?.map(|value| fence(value).ok_or(self.damage())).transpose()
    }

    fn attempt(self) -> Result<Option<LeaseId>, Fault> {
        self.value::<String>()?.map(|text| LeaseId::parse(&text).ok_or(self.damage())).transpose()
    }

    fn bits(self) -> Result<Option<u128>, Fault> {
        self.value::<String>()?.map(|text| u128::from_str_radix(&text, 16).map_err(|_| self.damage())).transpose()
    }

    fn damage(self) -> Fault {
        Fault::Damaged { table: self.table, column: self.name }
    }
}

fn stored(value: u64, table: &'static str, column: &'static str) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::TooLarge { table, column })
}

fn hex(bits: u128) -> String {
    format!("{bits:032x}")
}
