//! Many processes share one SQLite file. The processes increment a counter that only the lock protects, and some
//! processes are killed.
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
/// The number at which the counter ends.
const INCREMENTS: u64 = 2_000;
/// The number of increments between two kills. After a kill, the other processes may wait for up to a second, until one
/// of them checks whether the holder lives.
const INCREMENTS_PER_KILL: usize = 250;
/// A ttl that is longer than any delay of a busy machine.
const TAKEOVER_TTL: Duration = Duration::from_secs(30);
/// The environment variable with the folder of the SQLite file, the counter and the journal.
const FOLDER_VARIABLE: &str = "QUORLOCK_TEST_FOLDER";
/// The number of digits of the counter. One write replaces all of them, so a kill leaves the old or the new number.
const DIGITS: usize = 20;

#[test]
fn a_counter_under_the_lock_stays_exact_while_processes_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("counter"), format!("{:0DIGITS$}", 0)).unwrap();
    File::create(folder.path().join("journal")).unwrap();
    let mut workers: Vec<Process> =
        (0..WORKERS).map(|_| Process::start(concat!(module_path!(), "::worker_process"), folder.path())).collect();
    let mut kills = 0;
    for number in (0..INCREMENTS).step_by(INCREMENTS_PER_KILL) {
        eventually("the counter to grow", || counter(folder.path()) > number);
        let victim = kills % WORKERS;
        workers[victim] = Process::start(concat!(module_path!(), "::worker_process"), folder.path());
        kills += 1;
    }
    for worker in &mut workers {
        let status = worker.0.wait().unwrap();
        assert!(status.success(), "a worker that was not killed failed: {status}");
    }
    check_journal(folder.path(), kills);
}

/// Checks that each number in the journal was written once, and that the fences grow with the numbers.
fn check_journal(folder: &Path, kills: usize) {
    let journal = std::fs::read_to_string(folder.join("journal")).unwrap();
    let entries: Vec<(u64, u64)> = journal
        .lines()
        .map(|line| {
            let (number, fence) = line.split_once(' ').unwrap();
            (number.parse().unwrap(), fence.parse().unwrap())
        })
        .collect();
    assert_eq!(counter(folder), INCREMENTS);
    let numbers: BTreeSet<u64> = entries.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers.len(), entries.len(), "two entries have the same number, so an update was lost");
    // A worker that is killed after it wrote the counter, and before it wrote the journal, leaves one gap.
    assert!(entries.len() + kills >= INCREMENTS as usize, "{} entries, {kills} kills", entries.len());
    assert!(
        entries.windows(2).all(|pair| pair[0] < pair[1] && pair[0].1 < pair[1].1),
        "numbers or fences out of order"
    );
    println!("{} entries in the journal, {kills} processes killed", entries.len());
}

fn counter(folder: &Path) -> u64 {
    std::fs::read_to_string(folder.join("counter")).unwrap().parse().unwrap()
}

#[test]
fn a_waiter_in_another_process_takes_over_after_a_release() {
    let folder = tempfile::tempdir().unwrap();
    let holder = client(folder.path());
    let lease = retry_while_busy(|| holder.lock("takeover").ttl(TAKEOVER_TTL).acquire());
    let mut waiter = Process::start(concat!(module_path!(), "::waiter_process"), folder.path());
    eventually("the other process to wait for the lock", || folder.path().join("waiting").exists());
    let fence = lease.fence().unwrap().get();
    assert!(!folder.path().join("fence").exists(), "the waiter got the lock while it was held");
    // If the release is not acknowledged in time, the client retries it in the background.
    let _ = lease.release();
    let status = waiter.0.wait().unwrap();
    assert!(status.success(), "the waiter failed: {status}");
    let waiter_fence: u64 = std::fs::read_to_string(folder.path().join("fence")).unwrap().parse().unwrap();
    assert!(waiter_fence > fence, "fence {waiter_fence} after fence {fence}");
}

#[test]
#[ignore = "another test runs this test in a child process"]
fn waiter_process() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    let client = client(&folder);
    let lock = client.lock("takeover").ttl(TAKEOVER_TTL);
    assert!(retry_while_busy(|| lock.try_acquire()).is_none(), "the lock is not held");
    File::create(folder.join("waiting")).unwrap();
    let lease = retry_while_busy(|| lock.acquire_within(Duration::from_secs(60)));
    std::fs::write(folder.join("fence"), lease.fence().unwrap().to_string()).unwrap();
}

/// A child process that runs a test of this file. Dropping it kills the process.
struct Process(Child);

impl Process {
    fn start(test: &str, folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(crate::common::args_to_run(test)).env(FOLDER_VARIABLE, folder).stdout(Stdio::null());
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
#[ignore = "another test runs this test in child processes"]
fn worker_process() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    let client = client(&folder);
    let file = OpenOptions::new().read(true).write(true).open(folder.join("counter")).unwrap();
    let mut journal = OpenOptions::new().append(true).open(folder.join("journal")).unwrap();
    loop {
        let lease = retry_while_busy(|| client.lock("counter").acquire());
        let number = counter(&folder) + 1;
        if number > INCREMENTS {
            return;
        }
        // If the machine was delayed for too long, leave this increment to another process.
        if lease.ensure(Duration::from_secs(1)).is_err() {
            continue;
        }
        file.write_all_at(format!("{number:0DIGITS$}").as_bytes(), 0).unwrap();
        journal.write_all(format!("{number} {}\n", lease.fence().unwrap()).as_bytes()).unwrap();
    }
}

/// Calls `acquire` again and again while it fails because the file is busy.
fn retry_while_busy<T>(mut acquire: impl FnMut() -> Result<T, AcquireError>) -> T {
    loop {
        match acquire() {
            Ok(result) => return result,
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
