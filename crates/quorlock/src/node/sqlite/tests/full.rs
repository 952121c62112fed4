//! A full disk causes errors, but the node forgets no vote.

use std::process::Command;

use super::*;

const DISK_VARIABLE: &str = "QUORLOCK_TEST_SMALL_DISK";

/// Runs in the process with a small disk that [`a_full_disk_causes_errors_until_there_is_space_again`] starts. Does
/// nothing otherwise.
#[test]
fn the_process_with_a_small_disk() {
    let Some(disk) = std::env::var_os(DISK_VARIABLE).map(PathBuf::from) else { return };
    let mut session = TestSession::new(open(&SqliteNode::new(disk.join("locks.db"), Processes::default())).unwrap());
    let first_fence = granted(&session.acquire("held", 1));
    let filler = disk.join("filler");
    assert!(std::fs::write(&filler, vec![0; 1 << 20]).is_err(), "the disk is too large");
    // The session continues to answer, with errors instead of votes.
    for attempt in 2..6 {
        let replies = session.send(vec![message("a", acquire(attempt))]).unwrap();
        assert!(matches!(&replies[..], [Reply::Failed(why)] if why.contains("disk is full")), "{replies:?}");
    }
    let new = open(&SqliteNode::new(disk.join("new.db"), Processes::default())).err();
    assert!(matches!(&new, Some(Trouble::Unreachable(why)) if why.contains("full")), "{new:?}");
    std::fs::remove_file(filler).unwrap();
    assert!(is_held(&session.acquire("held", 7)), "the vote is still stored");
    granted(&session.acquire("a", 8));
    granted(&session.ask("held", release(1)));
    assert!(granted(&session.acquire("held", 9)) > first_fence);
    println!("done");
}

#[test]
fn a_full_disk_causes_errors_until_there_is_space_again() {
    let disk = tempfile::tempdir().unwrap();
    let (_, module) = module_path!().split_once("::").unwrap();
    let name = format!("{module}::the_process_with_a_small_disk");
    let script = format!("mount -t tmpfs -o size=512k none \"${DISK_VARIABLE}\" || exit 200; exec \"$0\" \"$@\"");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(DISK_VARIABLE, disk.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if matches!(output.status.code(), None | Some(1 | 200)) {
        eprintln!("skipped: cannot mount a small disk: {errors}");
        return;
    }
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("done"), "{errors}");
}
