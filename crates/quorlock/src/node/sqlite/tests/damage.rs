//! Files that were damaged, replaced or deleted cause errors. They never cause panics, and the errors contain no lease
//! id.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use quorlock_core::name::OwnerId;

use super::*;

/// The default page size of SQLite.
const PAGE: usize = 4_096;
/// The contents of a closed file with votes.
static CLOSED: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read(filled_file().path()).unwrap());
/// The contents of a file and of its log while a session has the file open.
static OPEN: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let test_file = filled_file();
    let mut session = test_file.session("boot");
    for name in 20..40 {
        granted(&session.acquire(&name.to_string(), SECRET));
    }
    (std::fs::read(test_file.path()).unwrap(), std::fs::read(log_of(&test_file)).unwrap())
});

fn log_of(test_file: &TestFile) -> String {
    format!("{}-wal", test_file.path().display())
}

const SECRET: u128 = 0x5ec2_e700_0000_0000_0000_0000_0000_0001;

/// Opens the file and sends requests. Returns all errors.
fn troubles(test_file: &TestFile) -> Vec<String> {
    let mut session = match test_file.open("boot") {
        Ok(session) => session,
        Err(Trouble::Unfit(why) | Trouble::Unreachable(why)) => return vec![why],
        Err(trouble) => panic!("{trouble:?}"),
    };
    let node_command = NodeCommand::Hello {
        identity: Identity::of_run("boot"),
        fresh: Epoch(1),
        constants: constants(),
        founders: String::new(),
        trust: Trust::Vote { floor_offset: 0 },
    };
    let mut all = Vec::new();
    let standing = match wait(session.node_command(node_command)) {
        Ok(standing) => standing,
        Err(Trouble::Broken(why)) => return vec![why],
        Err(trouble) => panic!("{trouble:?}"),
    };
    let life = standing.life.map(|life| Life { epoch: life.epoch.unwrap(), floor: life.floor.unwrap_or_default() });
    for attempt in [SECRET, SECRET + 1] {
        for name in 0..20 {
            let retire = Request::Retire { owner: OwnerId::from_bits(attempt), tombstone: 1_000 };
            for request in [acquire(attempt), retire, release(attempt)] {
                match wait(session.send(life, vec![message(&name.to_string(), request)])) {
                    Ok(_) => continue,
                    Err(Trouble::Broken(why)) => all.push(why),
                    Err(trouble) => panic!("{trouble:?}"),
                }
                // The error has ended the session.
                session = match test_file.open("boot") {
                    Ok(session) => session,
                    Err(Trouble::Unfit(why) | Trouble::Unreachable(why)) => {
                        all.push(why);
                        return all;
                    }
                    Err(trouble) => panic!("{trouble:?}"),
                };
            }
        }
    }
    all
}

/// Returns a closed file that contains votes, entries and waiters.
fn filled_file() -> TestFile {
    let test_file = TestFile::new();
    let mut session = test_file.session("boot");
    let waiter = |at| Some(Waiter { ticket: Ticket { at, id: 1 }, channel: Channel(9), shared: false });
    for name in 0..20 {
        let mode = match name % 2 {
            0 => Mode::EXCLUSIVE,
            _ => Mode::Shared { owner: OwnerId::from_bits(SECRET), reenters: false },
        };
        granted(&session.ask(&name.to_string(), acquire_as(SECRET, mode, waiter(1))));
        assert!(is_held(&session.ask(&name.to_string(), acquire_as(SECRET + 9, Mode::EXCLUSIVE, waiter(2)))));
    }
    drop(session);
    let other = test_file.connect();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    test_file
}

#[test]
fn garbage_in_a_column_causes_an_error_without_secrets() {
    let columns = [
        ("record", "vote", true),
        ("record", "vote_until", true),
        ("record", "fence", true),
        ("record", "fence_by", true),
        ("record", "since", true),
        ("record", "fence_until", true),
        ("record", "held_mode", true),
        ("record", "ticket", true),
        ("record", "waiting", true),
        ("record", "processes", false),
        ("entry", "attempt", true),
        ("entry", "owner", true),
        ("entry", "slot", true),
        ("entry", "until", true),
        ("entry", "processes", false),
        ("waiter", "at", true),
        ("waiter", "id", true),
        ("waiter", "channel", true),
        ("waiter", "shared", true),
        ("waiter", "until", true),
        ("waiter", "processes", false),
        ("node", "reserve", true),
        ("node", "sure", true),
        ("node", "epoch", true),
        ("node", "floor", true),
        ("node", "elapsed", true),
        ("node", "nodes", true),
        ("node", "cluster", false),
        ("node", "membership", true),
    ];
    let without_types = {
        let test_file = filled_file();
        let remove_types = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(sql, ', STRICT', ''), 'STRICT', '');
            PRAGMA wal_checkpoint(TRUNCATE)";
        test_file.connect().execute_batch(remove_types).unwrap();
        std::fs::read(test_file.path()).unwrap()
    };
    for (table, column, is_parsed) in columns {
        for garbage in ["-1", "9007199254740992 * 1000", "x'00ff'", "'5ec2e7 and more'", "1.5"] {
            let test_file = TestFile::new();
            std::fs::write(test_file.path(), &without_types).unwrap();
            test_file.connect().execute_batch(&format!("UPDATE {table} SET {column} = {garbage}")).unwrap();
            let troubles = troubles(&test_file);
            let is_number = garbage.starts_with('9')
                && match table {
                    "node" => column != "floor",
                    _ => matches!(column, "vote_until" | "since" | "fence_until" | "until" | "at"),
                };
            // A sweep may delete a row that seems to have expired long ago, without reading the row.
            let is_swept = garbage == "-1" && column.ends_with("until");
            assert!(!is_parsed || is_number || is_swept || !troubles.is_empty(), "{table}.{column} = {garbage}");
            for why in troubles {
                assert!(!why.contains("5ec2e7"), "{why}");
            }
        }
    }
}

#[test]
fn a_missing_table_or_node_row_causes_an_error() {
    let drops = ["node", "record", "entry", "waiter", "hint", "tombstone", "retired"]
        .map(|table| format!("DROP TABLE {table}"));
    for damage in drops.iter().map(String::as_str).chain(["DELETE FROM node"]) {
        let test_file = filled_file();
        test_file.connect().execute_batch(damage).unwrap();
        assert!(!troubles(&test_file).is_empty(), "{damage}");
    }
}

#[test]
fn a_truncated_file_causes_an_error_and_no_panic() {
    let whole = std::fs::read(filled_file().path()).unwrap();
    for length in [1, 50, 99, 100, 101, 512, 4_095, 4_096, 4_097, 8_192] {
        let test_file = TestFile::new();
        std::fs::write(test_file.path(), &whole[..length]).unwrap();
        assert!(!troubles(&test_file).is_empty(), "{length} of {}", whole.len());
    }
}

/// An overwritten part of a file: the position, and the new bytes.
type Overwrite = (Index, Vec<u8>);

fn damaged(whole: &[u8], overwrites: &[Overwrite], length: Option<Index>) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for (at, new_bytes) in overwrites {
        let at = at.index(bytes.len());
        for (byte, new) in bytes[at..].iter_mut().zip(new_bytes) {
            *byte = *new;
        }
    }
    if let Some(length) = length {
        bytes.truncate(length.index(bytes.len()));
    }
    bytes
}

/// Opens a file with these bytes and sends requests. Fails if an error contains a secret.
fn check_errors(bytes: &[u8], log: Option<&[u8]>) {
    let test_file = TestFile::new();
    std::fs::write(test_file.path(), bytes).unwrap();
    if let Some(log) = log {
        std::fs::write(log_of(&test_file), log).unwrap();
    }
    for why in troubles(&test_file) {
        assert!(!why.contains("5ec2e7"), "{why}");
    }
}

#[test]
fn an_overwritten_page_causes_no_panic_and_shows_no_secret() {
    let whole = &*CLOSED;
    assert_eq!(whole.len() % PAGE, 0, "the file consists of whole pages");
    for page in 0..whole.len() / PAGE {
        for with in [0, 0xff, 0x5a] {
            for part in [0..8, 8..PAGE / 2, PAGE - 64..PAGE, 0..PAGE] {
                let mut bytes = whole.clone();
                bytes[page * PAGE..][part].fill(with);
                check_errors(&bytes, None);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_overwritten_file_causes_no_panic_and_shows_no_secret(
        overwrites in vec((any::<Index>(), vec(any::<u8>(), 1..64)), 1..9),
        length in any::<Option<Index>>(),
    ) {
        check_errors(&damaged(&CLOSED, &overwrites, length), None);
    }

    #[test]
    fn an_overwritten_log_causes_no_panic_and_shows_no_secret(
        overwrites in vec((any::<Index>(), vec(any::<u8>(), 1..64)), 1..9),
        length in any::<Option<Index>>(),
    ) {
        let (whole, log) = &*OPEN;
        check_errors(whole, Some(&damaged(log, &overwrites, length)));
    }
}

#[test]
fn a_file_that_is_overwritten_while_open_causes_an_error_and_no_panic() {
    let test_file = filled_file();
    let mut session = test_file.session("boot");
    let size = std::fs::metadata(test_file.path()).unwrap().len() as usize;
    std::fs::write(test_file.path(), vec![0xa5; size]).unwrap();
    // This session may still have the pages in its cache or in the log. Only a new session must report an error.
    drop(session.send(vec![message("1", acquire(1))]));
    drop(session);
    assert!(!troubles(&test_file).is_empty());
}

#[test]
fn a_session_whose_file_was_deleted_or_replaced_does_not_vote() {
    let test_file = TestFile::new();
    let [mut session, mut later] = ["boot", "boot"].map(|boot| test_file.session(boot));
    granted(&session.acquire("a", 1));
    std::fs::remove_file(test_file.path()).unwrap();
    let answer = session.send(vec![message("a", acquire(1))]);
    assert!(matches!(&answer, Err(Trouble::Broken(why)) if why.contains("deleted")), "{answer:?}");
    std::fs::write(test_file.path(), "").unwrap();
    assert!(matches!(wait(later.session.node_command(NodeCommand::Look)), Err(Trouble::Broken(_))));
}
