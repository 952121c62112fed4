//! Many processes, one SQLite file: nobody else protects the counter, and some of them are killed.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::blocking::Client;
use quorlock::{AcquireError, Retry};
use quorlock_testkit::eventually;

const WORKERS: usize = 8;
const TURNS: u64 = 2_000;
/// More often than once a second, on any machine.
const TURNS_A_KILL: usize = 150;
const FOLDER: &str = "QUORLOCK_TEST_FOLDER";
/// The counter is written in one piece: a kill leaves the old number or the new one.
const DIGITS: usize = 20;

#[test]
fn a_counter_without_other_protection_ends_exact_although_processes_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("counter"), format!("{:0DIGITS$}", 0)).unwrap();
    File::create(folder.path().join("journal")).unwrap();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::start(folder.path())).collect();
    let mut kills = 0;
    for turn in (0..TURNS).step_by(TURNS_A_KILL) {
        eventually("the counter goes on", || counter(folder.path()) > turn);
        let victim = kills % WORKERS;
        workers[victim] = Worker::start(folder.path());
        kills += 1;
    }
    for worker in &mut workers {
        let status = worker.0.wait().unwrap();
        assert!(status.success(), "a worker that was not killed failed: {status}");
    }
    check(folder.path(), kills);
}

/// The numbers in the journal were each written once, and the fences grew with them.
fn check(folder: &Path, kills: usize) {
    let journal = std::fs::read_to_string(folder.join("journal")).unwrap();
    let turns: Vec<(u64, u64)> = journal
        .lines()
        .map(|line| {
            let (number, fence) = line.split_once(' ').unwrap();
            (number.parse().unwrap(), fence.parse().unwrap())
        })
        .collect();
    assert_eq!(counter(folder), TURNS);
    let numbers: BTreeSet<u64> = turns.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), turns.len(), "two turns read the same number: an update was lost");
    // A worker that is killed between the counter and the journal leaves a gap, and no more than one.
    assert!(turns.len() + kills >= TURNS as usize, "{} turns, {kills} kills", turns.len());
    assert!(turns.windows(2).all(|pair| pair[0] < pair[1] && pair[0].1 < pair[1].1), "turns or fences out of order");
    println!("{} turns in the journal, {kills} processes killed", turns.len());
}

fn counter(folder: &Path) -> u64 {
    std::fs::read_to_string(folder.join("counter")).unwrap().parse().unwrap()
}

/// This test binary again, as a worker. It is killed when it is dropped.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker", "--ignored", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a part of the test above, in a process of its own"]
fn worker() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let builder = quorlock::Client::builder()
        .nodes([format!("sqlite:{}", folder.join("locks.db").display())])
        .ttl(Duration::from_secs(2))
        .retry(Retry { min: Duration::from_millis(1), max: Duration::from_millis(20), attempts: None });
    let client = Client::build(builder).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(folder.join("counter")).unwrap();
    let mut journal = OpenOptions::new().append(true).open(folder.join("journal")).unwrap();
    loop {
        let lease = match client.lock("counter").acquire() {
            Ok(lease) => lease,
            // The file was busy for too long: an error, and nothing lost.
            Err(AcquireError::NoQuorum { .. } | AcquireError::TooSlow { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let number = counter(&folder) + 1;
        if number > TURNS {
            return;
        }
        // On a machine that is held up for long, the turn is left to somebody else.
        if lease.ensure(Duration::from_secs(1)).is_err() {
            continue;
        }
        file.write_all_at(format!("{number:0DIGITS$}").as_bytes(), 0).unwrap();
        journal.write_all(format!("{number} {}\n", lease.fence().unwrap()).as_bytes()).unwrap();
    }
}
