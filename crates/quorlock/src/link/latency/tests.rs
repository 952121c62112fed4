use super::*;

#[test]
fn a_pulse_that_was_not_taken_says_nothing() {
    assert_eq!(Latency::new().round_trips(), None);
}

#[test]
fn the_newest_round_trips_are_told_by_their_shares() {
    let pulse = Latency::new();
    (1..=100).for_each(|micros| pulse.took(Duration::from_micros(micros)));
    let micros = Duration::from_micros;
    assert_eq!(pulse.round_trips(), Some(RoundTrips { p50: micros(50), p99: micros(99) }));
    (0..TRIPS_KEPT).for_each(|_| pulse.took(micros(7)));
    assert_eq!(pulse.round_trips(), Some(RoundTrips { p50: micros(7), p99: micros(7) }));
}

#[test]
fn a_life_under_another_name_is_a_restart() {
    let pulse = Latency::new();
    for (epoch, restarts) in [(1, 0), (1, 0), (2, 1), (2, 1), (3, 2)] {
        pulse.lives(Epoch(epoch));
        assert_eq!(pulse.restarts(), restarts);
    }
}
