//! Opening the file: modes, races, and files that are not ours.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::node::sqlite::database::{APPLICATION_ID, SCHEMA_VERSION};
use crate::node::sqlite::file;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn unfit(result: Result<RequestReply, Trouble>) -> String {
    match result {
        Err(Trouble::Unfit(why)) => why,
        Err(trouble) => panic!("{trouble:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn missing_directories_and_files_are_made_for_the_owner_alone() {
    let ground = Ground::new();
    let path = ground.directory.path().join("deep/er/locks.db");
    let mut session = Handled::new(open(&SqliteNode::with_boot_id(&path, "boot", &ground.clock)).unwrap());
    granted(&session.acquire("a", 1));
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    for companion in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        assert_eq!(mode(&path.with_file_name(companion)), 0o600, "{companion}");
    }
}

#[test]
fn its_title_is_its_path_and_its_run_the_boot_id() {
    let ground = Ground::new();
    let node = SqliteNode::new(ground.path(), Processes::default());
    assert_eq!(node.title(), format!("sqlite:{}", ground.path().display()));
    let mut session = Handled::new(open(&node).unwrap());
    assert_eq!(session.session.identity().run, crate::platform::boot::current_id().unwrap());
    granted(&session.acquire("a", 1));
}

#[test]
fn many_can_open_a_new_file_at_once() {
    for _ in 0..10 {
        let ground = Ground::new();
        let barrier = std::sync::Barrier::new(8);
        let votes: Vec<Vote> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|attempt| {
                    let (ground, barrier) = (&ground, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        ground.session("boot").acquire("a", attempt)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(votes.iter().filter(|vote| is_held(vote)).count(), 7, "{votes:?}");
    }
}

#[test]
fn a_file_of_another_version_is_refused_with_advice() {
    for (version, advice) in [(2, "remove the file"), (SCHEMA_VERSION + 1, "newer quorlock")] {
        let ground = Ground::new();
        drop(ground.session("boot"));
        ground.other().pragma_update(None, "user_version", version).unwrap();
        let before = std::fs::read(ground.path()).unwrap();
        let why = unfit(ground.open("boot"));
        assert!(
            why.contains(&format!("version {version}")) && why.contains(&format!("version {SCHEMA_VERSION}")),
            "{why}"
        );
        assert!(why.contains("locks.db") && why.contains(advice), "{why}");
        assert_eq!(std::fs::read(ground.path()).unwrap(), before);
    }
}

#[test]
fn another_applications_database_is_refused_and_left_as_it_was() {
    for statement in ["CREATE TABLE t(x)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"] {
        let ground = Ground::new();
        ground.other().execute_batch(statement).unwrap();
        let before = std::fs::read(ground.path()).unwrap();
        let why = unfit(ground.open("boot"));
        assert!(why.contains("another application"), "{why}");
        assert_eq!(std::fs::read(ground.path()).unwrap(), before);
    }
}

#[test]
fn a_text_file_is_refused_and_left_as_it_was() {
    for text in ["x", "not a database\n", &"a line of text\n".repeat(20), &"a line of text\n".repeat(1_000)] {
        let ground = Ground::new();
        std::fs::write(ground.path(), text).unwrap();
        let why = unfit(ground.open("boot"));
        assert!(why.contains("not an SQLite database") && why.contains("locks.db"), "{why}");
        assert_eq!(std::fs::read_to_string(ground.path()).unwrap(), text);
        assert_eq!(std::fs::read_dir(ground.directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_path_that_cannot_be_is_refused_by_name() {
    let ground = Ground::new();
    std::fs::create_dir(ground.path()).unwrap();
    assert!(unfit(ground.open("boot")).contains("not a regular file"));
    std::fs::remove_dir(ground.path()).unwrap();
    std::fs::write(ground.path(), "").unwrap();
    let below = ground.path().join("x.db");
    let why = unfit(open(&SqliteNode::new(below, Processes::default())));
    assert!(why.contains("locks.db"), "{why}");
    std::fs::hard_link(ground.path(), ground.directory.path().join("twin.db")).unwrap();
    assert!(unfit(ground.open("boot")).contains("hard links"));
}

#[test]
fn a_directory_that_may_not_be_written_is_refused_by_name() {
    let path = Path::new("/proc/self/quorlock/locks.db");
    let why = unfit(open(&SqliteNode::new(path.into(), Processes::default())));
    assert!(why.contains("/proc/self/quorlock"), "{why}");
    let ground = Ground::new();
    std::fs::set_permissions(ground.directory.path(), PermissionsExt::from_mode(0o500)).unwrap();
    if std::fs::write(ground.directory.path().join("probe"), "").is_ok() {
        return; // We are root, to whom nothing is forbidden.
    }
    assert!(unfit(ground.open("boot")).contains("locks.db"));
}

#[test]
fn network_file_systems_are_told_by_their_magic_number() {
    let network = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x00c3_6400, 0x0102_1997, 0x0bd0_0bd0];
    for magic in network {
        assert!(file::file_system(magic).1, "{magic:x}");
        assert_eq!(file::file_system(magic), file::file_system(i128::from(magic as i32)), "however it is signed");
    }
    assert_eq!(file::file_system(0x4750_4653), ("GPFS", true));
    assert_eq!(file::file_system(0x7375_7245), ("Coda", true));
    for (local, magic) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683e), ("tmpfs", 0x0102_1994)] {
        assert!(!file::file_system(magic).1, "{local}");
    }
}

#[test]
fn the_file_bears_our_mark() {
    let ground = Ground::new();
    drop(ground.session("boot"));
    let id: i32 = ground.other().pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
    assert_eq!(id, APPLICATION_ID);
}
