CREATE TABLE node(
    id INTEGER PRIMARY KEY CHECK(id = 1), reserve INTEGER NOT NULL, sure INTEGER NOT NULL, swept TEXT NOT NULL,
    run TEXT, epoch TEXT, floor INTEGER, elapsed INTEGER,
    cluster TEXT, nodes INTEGER, max_ttl INTEGER, max_clock_skew INTEGER, founders TEXT,
    quarantine INTEGER, suspended INTEGER, restarts INTEGER,
    membership TEXT
) STRICT;
CREATE TABLE record(
    key TEXT PRIMARY KEY, vote TEXT, held_mode TEXT, vote_until INTEGER,
    fence INTEGER, fence_by TEXT, since INTEGER, ticket TEXT, holder TEXT, fence_until INTEGER,
    waiting INTEGER NOT NULL, processes TEXT
) WITHOUT ROWID, STRICT;
CREATE TABLE entry(
    key TEXT NOT NULL, attempt TEXT NOT NULL, owner TEXT, slot INTEGER, fence INTEGER NOT NULL,
    until INTEGER NOT NULL, processes TEXT, PRIMARY KEY(key, attempt)
) WITHOUT ROWID, STRICT;
CREATE TABLE waiter(
    key TEXT NOT NULL, at INTEGER NOT NULL, id TEXT NOT NULL,
    channel TEXT NOT NULL, shared INTEGER NOT NULL, until INTEGER NOT NULL, processes TEXT,
    PRIMARY KEY(key, at, id)
) WITHOUT ROWID, STRICT;
CREATE TABLE hint(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, ticket TEXT NOT NULL, until INTEGER NOT NULL
) STRICT;
CREATE TABLE history(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, at TEXT NOT NULL, name TEXT NOT NULL,
    what TEXT NOT NULL, fence TEXT NOT NULL, holder TEXT NOT NULL, mode TEXT NOT NULL, reason TEXT NOT NULL
) STRICT;
CREATE TABLE tombstone(attempt TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID, STRICT;
CREATE INDEX tombstone_until ON tombstone(until);
CREATE TABLE retired(
    key TEXT NOT NULL, owner TEXT NOT NULL, until INTEGER NOT NULL, PRIMARY KEY(key, owner)
) WITHOUT ROWID, STRICT;
CREATE INDEX retired_until ON retired(until);
