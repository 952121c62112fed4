//! Tests of the movable wall clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use quorlock_testkit::{Aof, Clock, RedisServer};

/// A time in microseconds since the epoch.
const TIME: i64 = 1_700_000_000_123_456;

fn server_time(server: &RedisServer) -> i64 {
    let time = server.command(&["TIME"]).strings();
    let [seconds, micros] = [&time[0], &time[1]].map(|part| part.parse::<i64>().unwrap());
    seconds * 1_000_000 + micros
}

fn real_time() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since_epoch.as_micros()).unwrap()
}

#[test]
fn a_server_shows_the_time_of_its_frozen_clock() {
    let clock = Clock::new();
    clock.freeze_at_micros(TIME);
    let server = RedisServer::builder().clock(&clock).start();
    assert_eq!(server_time(&server), TIME);
    assert_eq!(server_time(&server), TIME);
    clock.freeze_at_micros(TIME + 1);
    assert_eq!(server_time(&server), TIME + 1);
}

#[test]
fn a_key_lives_up_to_and_including_its_last_millisecond() {
    let clock = Clock::new();
    clock.freeze_at_micros(TIME);
    let server = RedisServer::builder().clock(&clock).start();
    server.command(&["SET", "key", "value", "PX", "1000"]);
    clock.freeze_at_micros(TIME + 1_000_000);
    assert_eq!(server.command(&["GET", "key"]).as_str(), Some("value"));
    clock.freeze_at_micros(TIME + 1_001_000);
    assert!(server.command(&["GET", "key"]).is_nil());
}

#[test]
fn a_clock_runs_ahead_of_or_behind_the_real_time_by_its_offset() {
    let clock = Clock::new();
    let server = RedisServer::builder().clock(&clock).start();
    for offset in [0, 3_600_000_000, -3_600_000_000, -1] {
        clock.set_offset_micros(offset);
        let before = real_time() + offset;
        let shown = server_time(&server);
        let after = real_time() + offset;
        assert!(before <= shown && shown <= after);
    }
}

#[test]
fn a_clock_outlives_a_restart_of_its_server() {
    let clock = Clock::new();
    clock.freeze_at_micros(TIME);
    let server = RedisServer::builder().aof(Aof::Always).clock(&clock).start();
    drop(clock);
    server.restart();
    assert_eq!(server_time(&server), TIME);
}

#[test]
fn another_program_can_run_under_a_clock() {
    let clock = Clock::new();
    clock.freeze_at_micros(TIME);
    let output = Command::new("date").arg("+%s.%N").envs(clock.envs()).output().unwrap();
    assert_eq!(output.stdout, b"1700000000.123456000\n");
}

#[test]
fn a_time_before_the_epoch_is_shown_with_its_fraction() {
    let clock = Clock::new();
    clock.freeze_at_micros(-1);
    let output = Command::new("date").arg("+%s.%N").envs(clock.envs()).output().unwrap();
    assert_eq!(output.stdout, b"-1.999999000\n");
}

#[test]
fn a_program_whose_clock_was_dropped_does_not_run() {
    let envs = Clock::new().envs();
    let output = Command::new("date").envs(envs).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
}
