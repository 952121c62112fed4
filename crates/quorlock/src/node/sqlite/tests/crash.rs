//! A process that is killed at any time leaves a file that the next one can use.

use std::process::{Command, Stdio};

use super::*;

const FILE_VARIABLE: &str = "QUORLOCK_TEST_SQLITE_FILE";

/// Not a test of its own: the process that is killed.
#[test]
fn the_killed_process() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let mut session = Handled::new(open(&SqliteNode::new(path.into(), Processes::default())).unwrap());
    // A name of its own: these sessions do not say whose they are, so what a killed process held stays held.
    let name = format!("theirs/{}", std::process::id());
    let mut last = Fence::default();
    for attempt in crate::platform::entropy::bits() >> 1.. {
        let fence = session.fence(&name, attempt);
        assert!(fence > last);
        last = fence;
    }
}

#[test]
fn a_kill_at_any_time_leaves_a_usable_file() {
    let ground = Ground::new();
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::the_killed_process");
    let mut last = Fence::default();
    for round in 0..20_u64 {
        let mut children: Vec<_> = (0..2)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", &name])
                    .env(FILE_VARIABLE, ground.path())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // Chance, not a wait for anything: any moment will do.
        std::thread::sleep(Duration::from_micros(round * 4_000 + round % 7 * 300));
        for child in &mut children {
            child.kill().unwrap();
            assert!(child.wait().unwrap().code().is_none(), "it failed before it was killed");
        }
        let mut session = Handled::new(open(&SqliteNode::new(ground.path(), Processes::default())).unwrap());
        let fence = session.fence("ours", u128::from(round));
        assert!(fence > last);
        last = fence;
        let check: String = ground.other().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
    assert!(ground.other().query_row("SELECT fence FROM record WHERE key LIKE '%theirs/%'", [], |_| Ok(())).is_ok());
}
