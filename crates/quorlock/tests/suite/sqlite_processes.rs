//! Many processes and one SQLite file: only the lock protects the counter, and some of the processes are killed.
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
/// A killed holder keeps the others waiting until one of them checks it, so each kill costs up to a second.
const TURNS_A_KILL: usize = 250;
/// Longer than any delay of a busy machine.
const HANDOVER_TTL: Duration = Duration::from_secs(30);
const FOLDER: &str = "QUORLOCK_TEST_FOLDER";
/// The counter is written in one piece, so a kill leaves the old or the new number.
const DIGITS: usize = 20;

#[test]
fn a_counter_under_the_lock_stays_exact_while_processes_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("counter"), format!("{:0DIGITS$}", 0)).unwrap();
    File::create(folder.path().join("journal")).unwrap();
    let mut workers: Vec<Process> =
        (0..WORKERS).map(|_| Process::start(concat!(module_path!(), "::worker"), folder.path())).collect();
    let mut kills = 0;
    for turn in (0..TURNS).step_by(TURNS_A_KILL) {
        eventually("the counter goes on", || counter(folder.path()) > turn);
        let victim = kills % WORKERS;
        workers[victim] = Process::start(concat!(module_path!(), "::worker"), folder.path());
        kills += 1;
    }
    for worker in &mut workers {
        let status = worker.0.wait().unwrap();
        assert!(status.success(), "a worker that was not killed failed: {status}");
    }
    check(folder.path(), kills);
}

/// Checks that each number in the journal was written once, and that fences grew with the numbers.
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
    // A worker that is killed between the counter and the journal leaves one gap.
    assert!(turns.len() + kills >= TURNS as usize, "{} turns, {kills} kills", turns.len());
    assert!(turns.windows(2).all(|pair| pair[0] < pair[1] && pair[0].1 < pair[1].1), "turns or fences out of order");
    println!("{} turns in the journal, {kills} processes killed", turns.len());
}

fn counter(folder: &Path) -> u64 {
    std::fs::read_to_string(folder.join("counter")).unwrap().parse().unwrap()
}

#[test]
fn a_waiter_in_another_process_takes_over_after_a_release() {
    let folder = tempfile::tempdir().unwrap();
    let holder = client(folder.path());
    let lease = insist(|| holder.lock("detached").ttl(HANDOVER_TTL).acquire());
    let mut waiter = Process::start(concat!(module_path!(), "::waiter"), folder.path());
    eventually("the other process asks", || folder.path().join("asking").exists());
    let ours = lease.fence().unwrap().get();
    assert!(!folder.path().join("taken").exists(), "the waiter got a held lock");
    // If the release is not acknowledged in time, the client retries it in the background.
    let _ = lease.release();
    let status = waiter.0.wait().unwrap();
    assert!(status.success(), "the waiter failed: {status}");
    let theirs: u64 = std::fs::read_to_string(folder.path().join("taken")).unwrap().parse().unwrap();
    assert!(theirs > ours, "fence {theirs} after {ours}");
}

#[test]
#[ignore = "a part of the test above, in a process of its own"]
fn waiter() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let client = client(&folder);
    let lock = client.lock("detached").ttl(HANDOVER_TTL);
    assert!(insist(|| lock.try_acquire()).is_none(), "it is not held");
    File::create(folder.join("asking")).unwrap();
    let lease = insist(|| lock.acquire_within(Duration::from_secs(60)));
    std::fs::write(folder.join("taken"), lease.fence().unwrap().to_string()).unwrap();
}

/// Runs a test of this file in a child process, which is killed on drop.
struct Process(Child);

impl Process {
    fn start(test: &str, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(crate::common::only(test)).env(FOLDER, folder).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "a part of the first test, in a process of its own"]
fn worker() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let client = client(&folder);
    let file = OpenOptions::new().read(true).write(true).open(folder.join("counter")).unwrap();
    let mut journal = OpenOptions::new().append(true).open(folder.join("journal")).unwrap();
    loop {
        let lease = insist(|| client.lock("counter").acquire());
        let number = counter(&folder) + 1;
        if number > TURNS {
            return;
        }
        // If the machine was delayed for too long, another process takes this turn.
        if lease.ensure(Duration::from_secs(1)).is_err() {
            continue;
        }
        file.write_all_at(format!("{number:0DIGITS$}").as_bytes(), 0).unwrap();
        journal.write_all(format!("{number} {}\n", lease.fence().unwrap()).as_bytes()).unwrap();
    }
}

/// Retries if the file was busy for too long.
fn insist<T>(mut ask: impl FnMut() -> Result<T, AcquireError>) -> T {
    loop {
        match ask() {
            Ok(got) => return got,
            Err(AcquireError::NoQuorum { .. } | AcquireError::TooSlow { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn client(folder: &Path) -> Client {
    let builder = quorlock::Client::builder()
        .nodes([format!("sqlite:{}", folder.join("locks.db").display())])
        .ttl(Duration::from_secs(2))
        .retry(Retry { min: Duration::from_millis(1), max: Duration::from_millis(20), attempts: None });
    Client::start(builder.connect()).unwrap()
}
