//! A machine that was paused: its boot-time clock stood still, and its wall clock was corrected afterwards. The tests
//! simulate this by moving the wall clock of a child process, whose boot-time clock is the machine's.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use quorlock::{Client, Lease};
use quorlock_testkit::Clock;

const ROLE: &str = "QUORLOCK_TEST_ROLE";
const HOUR_MICROS: i64 = 3_600_000_000;
/// Less than the rest of a long lease that has just been acquired.
const STEP_MICROS: i64 = 10_000_000;
/// Longer than any delay of a busy machine.
const LONG_TTL: Duration = Duration::from_secs(60);
/// A short ttl has frequent renewals, which check the clocks as well.
const SHORT_TTL: Duration = Duration::from_secs(3);

#[test]
fn a_lease_is_lost_when_the_wall_clock_has_passed_its_end() {
    let clock = Clock::new();
    let mut holder = Holder::start("look", &clock);
    assert_eq!(holder.next(), "holds");
    clock.set_offset_micros(-HOUR_MICROS);
    assert_eq!(holder.look(), "holds", "a clock that is set back changes nothing");
    clock.set_offset_micros(STEP_MICROS - HOUR_MICROS);
    assert_eq!(holder.look(), "holds", "a clock that is set forward by less than the rest of the lease ends nothing");
    clock.set_offset_micros(HOUR_MICROS);
    assert!(holder.look().starts_with("the lease is lost"));
    assert_eq!(holder.look(), "holds", "the next lease is counted by the clock as it is now");
}

#[test]
fn lost_resolves_without_a_check_of_the_lease() {
    let clock = Clock::new();
    let mut holder = Holder::start("wait", &clock);
    assert_eq!(holder.next(), "holds");
    clock.set_offset_micros(HOUR_MICROS);
    assert!(holder.next().starts_with("the lease is lost"));
}

/// This test binary as the holder of a lease, with another clock.
struct Holder {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    fn start(role: &str, clock: &Clock) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a process has a program"))
            .args(crate::common::only(concat!(module_path!(), "::holder")))
            .envs(clock.envs())
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a test binary can be started");
        let stdin = child.stdin.take().expect("it was asked for");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
        Self { child, stdin, lines }
    }

    fn look(&mut self) -> String {
        writeln!(self.stdin).expect("the holder listens");
        self.next()
    }

    /// The next line of its output.
    fn next(&mut self) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("the holder speaks"));
        // The test harness prints lines, too, and some of them have no newline.
        let said = lines.find_map(|line| Some(line.split_once("says: ")?.1.to_owned()));
        said.expect("the holder speaks")
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "only of use to the tests that start it in a process of its own"]
async fn holder() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let ttl = if role == "look" { LONG_TTL } else { SHORT_TTL };
    let client =
        crate::common::builder().nodes(["memory:"]).max_ttl(LONG_TTL).ttl(ttl).connect().await.expect("it is fit");
    let mut lease = acquire(&client).await;
    println!("says: holds");
    if role == "wait" {
        println!("says: {}", lease.lost().await);
        return;
    }
    for _ in std::io::stdin().lines() {
        match lease.ensure(Duration::ZERO) {
            Ok(()) => {
                lease.fence().expect("a lease that holds has a fence");
                println!("says: holds");
            }
            Err(error) => {
                assert_eq!(lease.validity(), Duration::ZERO);
                lease.fence().expect_err("a lost lease has no fence");
                lease.extend().await.expect_err("nothing revives it");
                println!("says: {error}");
                lease = acquire(&client).await;
            }
        }
    }
}

async fn acquire(client: &Client) -> Lease {
    client.lock("a").acquire().await.expect("the lock is free")
}
