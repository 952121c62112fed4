use super::*;
use crate::time::Drift;

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(10), Duration::from_secs(60)).unwrap()
}

#[test]
fn validity_counts_from_the_mth_largest_send_time() {
    let until = valid_until([at(5), at(1), at(9)], 2, ttl(), Drift::REDLOCK.of(ttl()));
    assert_eq!(until, Some(at(5 + 10_000 - 102)));
}

#[test]
fn a_minority_gives_no_validity() {
    assert_eq!(valid_until([at(5), at(1)], 3, ttl(), Drift::REDLOCK.of(ttl())), None);
}

#[test]
fn no_validity_is_left_after_its_end() {
    assert_eq!(left(at(10), at(4)), Duration::from_millis(6));
    assert_eq!(left(at(10), at(11)), Duration::ZERO);
}
