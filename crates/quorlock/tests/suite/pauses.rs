//! Leases on a machine that was paused. During the pause, its boot-time clock stands still. After the pause, its wall
//! clock is corrected. The tests simulate a pause: they move the wall clock of a child process, and leave its boot-time
//! clock.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use quorlock::{Client, Lease};
use quorlock_testkit::Clock;

/// The environment variable with the role of the child process: `check` or `wait`.
const ROLE_VARIABLE: &str = "QUORLOCK_TEST_ROLE";
const HOUR_MICROS: i64 = 3_600_000_000;
/// A step of the wall clock that is shorter than the remaining time of a new long lease.
const STEP_MICROS: i64 = 10_000_000;
/// A ttl that is longer than any delay of a busy machine.
const LONG_TTL: Duration = Duration::from_secs(60);
/// A short ttl, and therefore frequent renewals, which also check the clocks.
const SHORT_TTL: Duration = Duration::from_secs(3);

#[test]
fn a_lease_is_lost_when_the_wall_clock_has_passed_its_end() {
    let clock = Clock::new();
    let mut holder = Holder::start("check", &clock);
    assert_eq!(holder.next_report(), "holds");
    clock.set_offset_micros(-HOUR_MICROS);
    assert_eq!(holder.check(), "holds", "a clock that is set back does not end the lease");
    clock.set_offset_micros(STEP_MICROS - HOUR_MICROS);
    assert_eq!(
        holder.check(),
        "holds",
        "a clock that is set forward by less than the remaining time does not end the lease"
    );
    clock.set_offset_micros(HOUR_MICROS);
    assert!(holder.check().starts_with("the lease is lost"));
    assert_eq!(holder.check(), "holds", "the next lease counts from the changed clock");
}

#[test]
fn lost_resolves_after_a_pause_without_a_check_of_the_lease() {
    let clock = Clock::new();
    let mut holder = Holder::start("wait", &clock);
    assert_eq!(holder.next_report(), "holds");
    clock.set_offset_micros(HOUR_MICROS);
    assert!(holder.next_report().starts_with("the lease is lost"));
}

/// A child process that runs this test binary with another wall clock, and holds a lease.
struct Holder {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(role: &str, clock: &Clock) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("the path of the test binary is known"))
            .args(crate::common::args_to_run(concat!(module_path!(), "::holder_process")))
            .envs(clock.envs())
            .env(ROLE_VARIABLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary can be started");
        let stdin = child.stdin.take().expect("the pipe was requested");
        let lines = BufReader::new(child.stdout.take().expect("the pipe was requested")).lines();
        Self { child, stdin, lines }
    }

    /// Makes the holder check its lease.
    fn check(&mut self) -> String {
        writeln!(self.stdin).expect("the holder process reads its input");
        self.next_report()
    }

    /// The next report of the holder.
    fn next_report(&mut self) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("the holder process prints a line"));
        // The test harness prints to the same output, sometimes without a newline before the report.
        let report = lines.find_map(|line| Some(line.split_once("report: ")?.1.to_owned()));
        report.expect("the holder process prints a line")
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "other tests run this test in a child process"]
async fn holder_process() {
    let Ok(role) = std::env::var(ROLE_VARIABLE) else { return };
    let ttl = if role == "check" { LONG_TTL } else { SHORT_TTL };
    let client = crate::common::builder()
        .nodes(["memory:"])
        .max_ttl(LONG_TTL)
        .ttl(ttl)
        .connect()
        .await
        .expect("no node is unfit");
    let mut lease = acquire(&client).await;
    println!("report: holds");
    if role == "wait" {
        println!("report: {}", lease.lost().await);
        return;
    }
    for _ in std::io::stdin().lines() {
        match lease.ensure(Duration::ZERO) {
            Ok(()) => {
                lease.fence().expect("a lease that holds has a fence");
                println!("report: holds");
            }
            Err(error) => {
                assert_eq!(lease.validity(), Duration::ZERO);
                lease.fence().expect_err("a lost lease has no fence");
                lease.extend().await.expect_err("a lost lease cannot be extended");
                println!("report: {error}");
                lease = acquire(&client).await;
            }
        }
    }
}

async fn acquire(client: &Client) -> Lease {
    client.lock("a").acquire().await.expect("the lock is free")
}
