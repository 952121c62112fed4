//! How a session creates and opens its file, and which files it rejects.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::node::sqlite::database::{APPLICATION_ID, SCHEMA_VERSION};
use crate::node::sqlite::file;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the reason why the session was refused.
fn unfit_reason(result: Result<RequestReply, Trouble>) -> String {
    match result {
        Err(Trouble::Unfit(why)) => why,
        Err(trouble) => panic!("{trouble:?}"),
        Ok(_) => panic!("an unusable file was opened"),
    }
}

#[test]
fn missing_directories_and_files_are_created_with_access_only_for_their_owner() {
    let test_file = TestFile::new();
    let path = test_file.directory.path().join("deep/er/locks.db");
    let mut session = TestSession::new(open(&SqliteNode::with_boot_id(&path, "boot", &test_file.clock)).unwrap());
    granted(&session.acquire("a", 1));
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
    for companion in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        assert_eq!(mode(&path.with_file_name(companion)), 0o600, "{companion}");
    }
}

#[test]
fn the_title_of_a_node_is_its_path_and_the_run_id_is_the_boot_id() {
    let test_file = TestFile::new();
    let node = SqliteNode::new(test_file.path(), Processes::default());
    assert_eq!(node.title(), format!("sqlite:{}", test_file.path().display()));
    let mut session = TestSession::new(open(&node).unwrap());
    assert_eq!(session.session.identity().run, crate::platform::boot::current_id().unwrap());
    granted(&session.acquire("a", 1));
}

#[test]
fn several_sessions_can_open_a_new_file_at_once() {
    for _ in 0..10 {
        let test_file = TestFile::new();
        let barrier = std::sync::Barrier::new(8);
        let votes: Vec<Vote> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|attempt| {
                    let (test_file, barrier) = (&test_file, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        test_file.session("boot").acquire("a", attempt)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(votes.iter().filter(|vote| is_held(vote)).count(), 7, "{votes:?}");
    }
}

#[test]
fn a_file_of_another_version_is_rejected_with_advice() {
    for (version, advice) in [(2, "remove the file"), (SCHEMA_VERSION + 1, "newer quorlock")] {
        let test_file = TestFile::new();
        drop(test_file.session("boot"));
        test_file.connect().pragma_update(None, "user_version", version).unwrap();
        let before = std::fs::read(test_file.path()).unwrap();
        let why = unfit_reason(test_file.open("boot"));
        assert!(
            why.contains(&format!("version {version}")) && why.contains(&format!("version {SCHEMA_VERSION}")),
            "{why}"
        );
        assert!(why.contains("locks.db") && why.contains(advice), "{why}");
        assert_eq!(std::fs::read(test_file.path()).unwrap(), before);
    }
}

#[test]
fn the_database_of_another_application_is_rejected_and_not_changed() {
    for statement in ["CREATE TABLE t(x)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"] {
        let test_file = TestFile::new();
        test_file.connect().execute_batch(statement).unwrap();
        let before = std::fs::read(test_file.path()).unwrap();
        let why = unfit_reason(test_file.open("boot"));
        assert!(why.contains("another application"), "{why}");
        assert_eq!(std::fs::read(test_file.path()).unwrap(), before);
    }
}

#[test]
fn a_text_file_is_rejected_and_not_changed() {
    for text in ["x", "not a database\n", &"a line of text\n".repeat(20), &"a line of text\n".repeat(1_000)] {
        let test_file = TestFile::new();
        std::fs::write(test_file.path(), text).unwrap();
        let why = unfit_reason(test_file.open("boot"));
        assert!(why.contains("not an SQLite database") && why.contains("locks.db"), "{why}");
        assert_eq!(std::fs::read_to_string(test_file.path()).unwrap(), text);
        assert_eq!(std::fs::read_dir(test_file.directory.path()).unwrap().count(), 1);
    }
}

#[test]
fn the_error_for_an_unusable_path_names_the_path() {
    let test_file = TestFile::new();
    std::fs::create_dir(test_file.path()).unwrap();
    assert!(unfit_reason(test_file.open("boot")).contains("not a regular file"));
    std::fs::remove_dir(test_file.path()).unwrap();
    std::fs::write(test_file.path(), "").unwrap();
    let below = test_file.path().join("x.db");
    let why = unfit_reason(open(&SqliteNode::new(below, Processes::default())));
    assert!(why.contains("locks.db"), "{why}");
    std::fs::hard_link(test_file.path(), test_file.directory.path().join("twin.db")).unwrap();
    assert!(unfit_reason(test_file.open("boot")).contains("hard links"));
}

#[test]
fn the_error_for_a_read_only_directory_names_the_directory() {
    let path = Path::new("/proc/self/quorlock/locks.db");
    let why = unfit_reason(open(&SqliteNode::new(path.into(), Processes::default())));
    assert!(why.contains("/proc/self/quorlock"), "{why}");
    let test_file = TestFile::new();
    std::fs::set_permissions(test_file.directory.path(), PermissionsExt::from_mode(0o500)).unwrap();
    if std::fs::write(test_file.directory.path().join("probe"), "").is_ok() {
        return; // Root may write to every directory.
    }
    assert!(unfit_reason(test_file.open("boot")).contains("locks.db"));
}

#[test]
fn network_file_systems_are_recognized_by_their_magic_number() {
    let network = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x00c3_6400, 0x0102_1997, 0x0bd0_0bd0];
    for magic in network {
        assert!(file::file_system(magic).1, "{magic:x}");
        assert_eq!(file::file_system(magic), file::file_system(i128::from(magic as i32)), "a negative magic number");
    }
    assert_eq!(file::file_system(0x4750_4653), ("GPFS", true));
    assert_eq!(file::file_system(0x7375_7245), ("Coda", true));
    for (local, magic) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("btrfs", 0x9123_683e), ("tmpfs", 0x0102_1994)] {
        assert!(!file::file_system(magic).1, "{local}");
    }
}

#[test]
fn a_new_file_has_our_application_id() {
    let test_file = TestFile::new();
    drop(test_file.session("boot"));
    let id: i32 = test_file.connect().pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
    assert_eq!(id, APPLICATION_ID);
}
