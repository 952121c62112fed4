//! The clocks of clients and servers, as functions of true time (the model's own time) in microseconds.

use quorlock_core::node::NodeTime;
use quorlock_core::time::Moment;

/// The reading of the nodes' clocks at the start, in microseconds.
pub(super) const NODE_CLOCK_START: u64 = 1_000_000_000;
/// The reading of the clients' clocks at the start, in microseconds.
const CLIENT_CLOCK_START: u64 = 10_000_000;
const MILLION: i64 = 1_000_000;

fn elapsed_by_clock(micros: u64, ppm: i64) -> u64 {
    micros * (MILLION + ppm).unsigned_abs() / MILLION.unsigned_abs()
}

/// The reading of a client's clock.
pub(super) fn client_time(ppm: i64, now: u64) -> Moment {
    Moment::from_nanos((CLIENT_CLOCK_START + elapsed_by_clock(now, ppm)) * 1_000)
}

/// The readings of a server's clocks. The wall clock is ahead by `offset_micros`.
pub(super) fn server_time(ppm: i64, offset_micros: i64, now: u64) -> NodeTime {
    let steady = NODE_CLOCK_START + elapsed_by_clock(now, ppm);
    NodeTime { wall_micros: steady.saturating_add_signed(offset_micros), life_millis: steady / 1_000 }
}

/// The first microsecond of true time at which a client's clock reaches this moment.
pub(super) fn true_time_at_client(ppm: i64, moment: Moment) -> u64 {
    first_true_time(moment.as_nanos().div_ceil(1_000).saturating_sub(CLIENT_CLOCK_START), ppm, |now| {
        client_time(ppm, now) >= moment
    })
}

/// The first microsecond of true time at which a server's steady clock is past this millisecond.
pub(super) fn true_time_after_node_millis(ppm: i64, millis: u64) -> u64 {
    let micros = ((millis + 1) * 1_000).saturating_sub(NODE_CLOCK_START);
    first_true_time(micros, ppm, |now| server_time(ppm, 0, now).life_millis > millis)
}

/// The first microsecond of true time at which `is_reached` returns true. Tries one microsecond after the other, from
/// shortly before a clock with this rate has counted `micros`.
fn first_true_time(micros: u64, ppm: i64, is_reached: impl Fn(u64) -> bool) -> u64 {
    let mut now = (micros * MILLION.unsigned_abs() / (MILLION + ppm).unsigned_abs()).saturating_sub(2);
    while !is_reached(now) {
        now += 1;
    }
    now
}
