//! A process that is killed at any moment leaves a file that the next process can use.

use std::process::{Command, Stdio};

use super::*;

const FILE_VARIABLE: &str = "QUORLOCK_TEST_SQLITE_FILE";

/// Runs in the process that [`a_kill_at_any_moment_leaves_a_usable_file`] kills. Does nothing otherwise.
#[test]
fn the_killed_process() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let mut session = TestSession::new(open(&SqliteNode::new(path.into(), Processes::default())).unwrap());
    // Each process uses another name: the stored votes list no processes, so the lock of a killed process stays held.
    let name = format!("theirs/{}", std::process::id());
    let mut last_fence = Fence::default();
    for attempt in crate::platform::entropy::bits() >> 1.. {
        let fence = session.fence(&name, attempt);
        assert!(fence > last_fence);
        last_fence = fence;
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_usable_file() {
    let test_file = TestFile::new();
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::the_killed_process");
    let mut last_fence = Fence::default();
    for round in 0..20_u64 {
        let mut children: Vec<_> = (0..2)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", &name])
                    .env(FILE_VARIABLE, test_file.path())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // Kill the processes at a different moment in each round.
        std::thread::sleep(Duration::from_micros(round * 4_000 + round % 7 * 300));
        for child in &mut children {
            child.kill().unwrap();
            assert!(child.wait().unwrap().code().is_none(), "the process ended before it was killed");
        }
        let mut session = TestSession::new(open(&SqliteNode::new(test_file.path(), Processes::default())).unwrap());
        let fence = session.fence("ours", u128::from(round));
        assert!(fence > last_fence);
        last_fence = fence;
        let check: String = test_file.connect().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
    assert!(
        test_file.connect().query_row("SELECT fence FROM record WHERE key LIKE '%theirs/%'", [], |_| Ok(())).is_ok()
    );
}
