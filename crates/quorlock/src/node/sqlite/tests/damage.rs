//! Files that were damaged, moved or taken away: errors, never panics, and no lease id in them.

use quorlock_core::mode::OwnerId;

use super::*;

const SECRET: u128 = 0x5ec2_e700_0000_0000_0000_0000_0000_0001;

/// Opens and asks, and gives every error on the way.
fn troubles(ground: &Ground) -> Vec<String> {
    let mut session = match ground.open("boot") {
        Ok(session) => session,
        Err(Trouble::Unfit(why) | Trouble::Unreachable(why)) => return vec![why],
        Err(trouble) => panic!("{trouble:?}"),
    };
    let errand = Errand::Hello {
        run: "boot".into(),
        fresh: Epoch(1),
        constants: constants(),
        founders: String::new(),
        trust: Trust::Vote { floor_offset: 0 },
    };
    let mut all = Vec::new();
    let standing = match wait(session.errand(errand)) {
        Ok(standing) => standing,
        Err(Trouble::Broken(why)) => return vec![why],
        Err(trouble) => panic!("{trouble:?}"),
    };
    let life = standing.life.map(|life| Life { epoch: life.epoch.unwrap(), floor: life.floor.unwrap_or_default() });
    for attempt in [SECRET, SECRET + 1] {
        for name in 0..20 {
            for request in [acquire(attempt), release(attempt)] {
                match wait(session.send(life, vec![letter(&name.to_string(), request)])) {
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
            _ => Mode::Shared { owner: OwnerId::from_bits(SECRET) },
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
        ("node", "witnessed", true),
        ("node", "nodes", true),
        ("node", "cluster", false),
    ];
    for (table, column, is_parsed) in columns {
        for garbage in ["-1", "9007199254740992 * 1000", "x'00ff'", "'5ec2e7 and more'", "1.5"] {
            let ground = ground();
            let loosen = "PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = replace(replace(sql, ', STRICT', ''), 'STRICT', '')";
            ground.other().execute_batch(loosen).unwrap();
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
    let drops = ["node", "record", "entry", "place", "hint", "tombstone"].map(|table| format!("DROP TABLE {table}"));
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

#[test]
fn a_scribbled_file_never_panics_and_tells_no_secret() {
    let whole = std::fs::read(ground().path()).unwrap();
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = |sides: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice as usize % sides
    };
    for _ in 0..150 {
        let ground = Ground::new();
        let mut scribbled = whole.clone();
        for _ in 0..=roll(8) {
            let (start, length) = (roll(whole.len()), 1 + roll(64));
            for byte in scribbled.iter_mut().skip(start).take(length) {
                *byte = roll(256) as u8;
            }
        }
        std::fs::write(ground.path(), scribbled).unwrap();
        for why in troubles(&ground) {
            assert!(!why.contains("5ec2e7"), "{why}");
        }
    }
}

#[test]
fn a_file_that_is_scribbled_over_while_open_is_an_error_not_a_panic() {
    let ground = ground();
    let mut session = ground.session("boot");
    let size = std::fs::metadata(ground.path()).unwrap().len() as usize;
    std::fs::write(ground.path(), vec![0xa5; size]).unwrap();
    // The pages may still be cached or in the log: an error is due only from a new session.
    drop(session.send(vec![letter("1", acquire(1))]));
    drop(session);
    assert!(!troubles(&ground).is_empty());
}

#[test]
fn a_file_that_was_deleted_or_replaced_is_not_voted_with() {
    let ground = Ground::new();
    let [mut session, mut later] = ["boot", "boot"].map(|boot| ground.session(boot));
    granted(&session.acquire("a", 1));
    std::fs::remove_file(ground.path()).unwrap();
    let gone = session.send(vec![letter("a", acquire(1))]);
    assert!(matches!(&gone, Err(Trouble::Broken(why)) if why.contains("deleted")), "{gone:?}");
    std::fs::write(ground.path(), "").unwrap();
    assert!(matches!(wait(later.session.errand(Errand::Look)), Err(Trouble::Broken(_))));
}
