use super::*;

#[test]
fn a_latency_without_round_trips_has_no_percentiles() {
    assert_eq!(Latency::default().round_trips(), None);
}

#[test]
fn percentiles_are_those_of_the_newest_round_trips() {
    let latency = Latency::default();
    (1..=100).for_each(|micros| latency.record_trip(Duration::from_micros(micros)));
    let micros = Duration::from_micros;
    assert_eq!(latency.round_trips(), Some(RoundTrips { p50: micros(50), p99: micros(99) }));
    (0..TRIPS_KEPT).for_each(|_| latency.record_trip(micros(7)));
    assert_eq!(latency.round_trips(), Some(RoundTrips { p50: micros(7), p99: micros(7) }));
}

#[test]
fn another_epoch_counts_as_a_restart() {
    let latency = Latency::default();
    for (epoch, restarts) in [(1, 0), (1, 0), (2, 1), (2, 1), (3, 2)] {
        latency.record_epoch(Epoch(epoch));
        assert_eq!(latency.restarts(), restarts);
    }
}
