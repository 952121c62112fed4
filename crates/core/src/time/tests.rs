use super::*;

const MAX: Duration = Duration::from_secs(60);

#[test]
fn a_ttl_is_between_its_minimum_and_the_max_ttl() {
    assert_eq!(Ttl::new(TTL_MIN, MAX).unwrap().as_millis(), 100);
    assert_eq!(Ttl::new(MAX, MAX).unwrap().duration(), MAX);
    assert!(Ttl::new(Duration::from_millis(99), MAX).is_err());
    let too_long = Ttl::new(Duration::from_secs(61), MAX).unwrap_err();
    assert!(alloc::format!("{too_long}").contains("61s"));
}

#[test]
fn drift_is_a_share_of_the_ttl_plus_a_constant() {
    let ttl = Ttl::new(Duration::from_secs(10), MAX).unwrap();
    assert_eq!(Drift::REDLOCK.of(ttl), Duration::from_millis(102));
    assert_eq!(Drift::SLEWING.of(ttl), Duration::from_millis(1_002));
}

#[test]
fn the_default_drift_covers_a_node_whose_clock_is_slewed() {
    // (T - d)(1 + r_node) <= T (1 - r_client), where r_node is 8.3 % and r_client is 100 ppm, the error of a crystal.
    for seconds in [1, 10, 30, 60] {
        let ttl = Ttl::new(Duration::from_secs(seconds), MAX).unwrap();
        let validity = ttl.duration().saturating_sub(Drift::SLEWING.of(ttl)).as_secs_f64();
        assert!(validity * 1.083 <= ttl.duration().as_secs_f64() * (1.0 - 0.000_1));
    }
}

#[test]
fn moments_do_not_overflow() {
    let last = Moment::from_nanos(u64::MAX);
    assert_eq!(last + Duration::from_secs(1), last);
    assert_eq!(Moment::from_nanos(5).since(last), Duration::ZERO);
    assert_eq!(Moment::from_nanos(5).before(Duration::from_secs(1)), Moment::from_nanos(0));
}
