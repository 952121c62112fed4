//! Files that were damaged, moved or taken away: errors, never panics, and no lease id in them.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use quorlock_core::name::OwnerId;

use super::*;

/// The size of a page, as SQLite has it unless it is told otherwise.
const PAGE: usize = 4_096;
/// What is in such a file, and in one and its log while somebody has it open.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read(ground().path()).unwrap());
static OPEN: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let ground = ground();
    let mut session = ground.session("boot");
    for name in 20..40 {
        granted(&session.acquire(&name.to_string(), SECRET));
    }
    (std::fs::read(ground.path()).unwrap(), std::fs::read(log_of(&ground)).unwrap())
});

fn log_of(ground: &Ground) -> String {
    format!("{}-wal", ground.path().display())
}

const SECRET: u128 = 0x5ec2_e700_0000_0000_0000_0000_0000_0001;

/// Opens and asks, and gives every error on the way.
fn troubles(ground: &Ground) -> Vec<String> {
    let mut session = match ground.open("boot") {
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
                // That was the end of the session.
                session = match ground.open("boot") {
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

/// A file with some votes, entries and waiters in it, at rest.
fn ground() -> Ground {
    let ground = Ground::new();
    let mut session = ground.session("boot");
    let waiter = |at| Some(Waiter { ticket: Ticket { at, id: 1 }, channel: Channel(9), shared: false });
    for name in 0..20 {
        let mode = match name % 2 {
            0 => Mode::EXCLUSIVE,
            _ => Mode::Shared { owner: OwnerId::from_bits(SECRET), reenters: false },
        };
        granted(&session.ask(&name.to_string(), asking(SECRET, mode, waiter(1))));
        assert!(is_held(&session.ask(&name.to_string(), asking(SECRET + 9, Mode::EXCLUSIVE, waiter(2)))));
    }
    drop(session);
    let other = ground.other();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    ground
}

#[test]
fn garbage_in_a_column_is_an_error_that_tells_no_secret() {
    let columns = [
        ("record", "vote", true),
        ("record", "vote_until", true),
        ("record", "fence", true),
        ("record", "fence_by", true),
        ("record", "since", true),
        ("record", "fence_until", true),
        ("record", "period", true),
        ("record", "ticket", true),
        ("record", "waiting", true),
        ("record", "processes", false),
        ("entry", "attempt", true),
        ("entry", "owner", true),
        ("entry", "slot", true),
        ("entry", "until", true),
        ("entry", "processes", false),
        ("place", "at", true),
        ("place", "id", true),
        ("place", "channel", true),
        ("place", "shared", true),
        ("place", "until", true),
        ("place", "processes", false),
        ("node", "reserve", true),
        ("node", "sure", true),
        ("node", "epoch", true),
        ("node", "floor", true),
        ("node", "elapsed", true),
        ("node", "nodes", true),
        ("node", "cluster", false),
    ];
    let loose = {
        let ground = ground();
        let loosen = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(sql, ', STRICT', ''), 'STRICT', '');
            PRAGMA wal_checkpoint(TRUNCATE)";
        ground.other().execute_batch(loosen).unwrap();
        std::fs::read(ground.path()).unwrap()
    };
    for (table, column, is_parsed) in columns {
        for garbage in ["-1", "9007199254740992 * 1000", "x'00ff'", "'5ec2e7 and more'", "1.5"] {
            let ground = Ground::new();
            std::fs::write(ground.path(), &loose).unwrap();
            ground.other().execute_batch(&format!("UPDATE {table} SET {column} = {garbage}")).unwrap();
            let troubles = troubles(&ground);
            let is_number = garbage.starts_with('9')
                && match table {
                    "node" => column != "floor",
                    _ => matches!(column, "vote_until" | "since" | "fence_until" | "until" | "at"),
                };
            // What seems to have lapsed long ago may be swept away unread.
            let is_swept = garbage == "-1" && column.ends_with("until");
            assert!(!is_parsed || is_number || is_swept || !troubles.is_empty(), "{table}.{column} = {garbage}");
            for why in troubles {
                assert!(!why.contains("5ec2e7"), "{why}");
            }
        }
    }
}

#[test]
fn a_missing_table_or_row_is_an_error() {
    let drops =
        ["node", "record", "entry", "place", "hint", "tombstone", "retired"].map(|table| format!("DROP TABLE {table}"));
    for damage in drops.iter().map(String::as_str).chain(["DELETE FROM node"]) {
        let ground = ground();
        ground.other().execute_batch(damage).unwrap();
        assert!(!troubles(&ground).is_empty(), "{damage}");
    }
}

#[test]
fn a_truncated_file_is_an_error_not_a_panic() {
    let whole = std::fs::read(ground().path()).unwrap();
    for length in [1, 50, 99, 100, 101, 512, 4_095, 4_096, 4_097, 8_192] {
        let ground = Ground::new();
        std::fs::write(ground.path(), &whole[..length]).unwrap();
        assert!(!troubles(&ground).is_empty(), "{length} of {}", whole.len());
    }
}

/// Where a file is scribbled over, and with what.
type Scribble = (Index, Vec<u8>);

fn damaged(whole: &[u8], scribbles: &[Scribble], length: Option<Index>) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for (at, with) in scribbles {
        let at = at.index(bytes.len());
        for (byte, new) in bytes[at..].iter_mut().zip(with) {
            *byte = *new;
        }
    }
    if let Some(length) = length {
        bytes.truncate(length.index(bytes.len()));
    }
    bytes
}

/// Opens a file with these bytes and asks: no panic, and no secret in any error.
fn survives(bytes: &[u8], log: Option<&[u8]>) {
    let ground = Ground::new();
    std::fs::write(ground.path(), bytes).unwrap();
    if let Some(log) = log {
        std::fs::write(log_of(&ground), log).unwrap();
    }
    for why in troubles(&ground) {
        assert!(!why.contains("5ec2e7"), "{why}");
    }
}

#[test]
fn no_page_can_be_scribbled_over_so_that_it_panics_or_tells_a_secret() {
    let whole = &*WHOLE;
    assert_eq!(whole.len() % PAGE, 0, "pages are as large as they are taken to be");
    for page in 0..whole.len() / PAGE {
        for with in [0, 0xff, 0x5a] {
            for part in [0..8, 8..PAGE / 2, PAGE - 64..PAGE, 0..PAGE] {
                let mut bytes = whole.clone();
                bytes[page * PAGE..][part].fill(with);
                survives(&bytes, None);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scribbled_file_never_panics_and_tells_no_secret(
        scribbles in vec((any::<Index>(), vec(any::<u8>(), 1..64)), 1..9),
        length in any::<Option<Index>>(),
    ) {
        survives(&damaged(&WHOLE, &scribbles, length), None);
    }

    #[test]
    fn a_scribbled_log_never_panics_and_tells_no_secret(
        scribbles in vec((any::<Index>(), vec(any::<u8>(), 1..64)), 1..9),
        length in any::<Option<Index>>(),
    ) {
        let (whole, log) = &*OPEN;
        survives(whole, Some(&damaged(log, &scribbles, length)));
    }
}

#[test]
fn a_file_that_is_scribbled_over_while_open_is_an_error_not_a_panic() {
    let ground = ground();
    let mut session = ground.session("boot");
    let size = std::fs::metadata(ground.path()).unwrap().len() as usize;
    std::fs::write(ground.path(), vec![0xa5; size]).unwrap();
    // The pages may still be cached or in the log: an error is due only from a new session.
    drop(session.send(vec![message("1", acquire(1))]));
    drop(session);
    assert!(!troubles(&ground).is_empty());
}

#[test]
fn a_file_that_was_deleted_or_replaced_is_not_voted_with() {
    let ground = Ground::new();
    let [mut session, mut later] = ["boot", "boot"].map(|boot| ground.session(boot));
    granted(&session.acquire("a", 1));
    std::fs::remove_file(ground.path()).unwrap();
    let gone = session.send(vec![message("a", acquire(1))]);
    assert!(matches!(&gone, Err(Trouble::Broken(why)) if why.contains("deleted")), "{gone:?}");
    std::fs::write(ground.path(), "").unwrap();
    assert!(matches!(wait(later.session.node_command(NodeCommand::Look)), Err(Trouble::Broken(_))));
}
