use super::*;

struct ConstantRng(u64);

impl Rng for ConstantRng {
    fn bits(&mut self) -> u64 {
        self.0
    }
}

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn delays_grow_up_to_the_longest_one() {
    let retry = Retry { min: Duration::from_millis(10), max: Duration::from_millis(35), attempts: None };
    let mut schedule_with_longest_delays = Schedule::new(retry, None);
    let mut schedule_with_shortest_delays = Schedule::new(retry, None);
    let delays: alloc::vec::Vec<_> =
        (0..3).map(|_| schedule_with_longest_delays.next(at(0), &mut ConstantRng(u64::MAX)).unwrap()).collect();
    assert_eq!(delays, [at(20), at(35), at(35)]);
    for _ in 0..3 {
        assert_eq!(schedule_with_shortest_delays.next(at(0), &mut ConstantRng(0)), Some(at(10)));
    }
}

#[test]
fn the_number_of_attempts_and_the_latest_start_end_the_retries() {
    let mut two_attempts = Schedule::new(Retry { attempts: Some(2), ..Retry::default() }, None);
    assert!(two_attempts.next(at(0), &mut ConstantRng(0)).is_some());
    assert!(two_attempts.next(at(0), &mut ConstantRng(0)).is_none());
    let mut until_3_ms = Schedule::new(Retry::default(), Some(at(3)));
    assert_eq!(
        until_3_ms.next(at(1), &mut ConstantRng(u64::MAX)),
        Some(at(3)),
        "the last attempt starts at the latest start"
    );
    assert_eq!(until_3_ms.next(at(3), &mut ConstantRng(0)), None);
}

#[test]
fn extreme_delays_do_not_overflow() {
    let retry = Retry { min: Duration::from_secs(u64::MAX / 4), max: Duration::ZERO, attempts: None };
    let mut schedule = Schedule::new(retry, None);
    assert!(schedule.next(at(1), &mut ConstantRng(u64::MAX)).is_some());
}

#[test]
fn is_last_is_true_during_the_last_attempt() {
    let mut two_attempts = Schedule::new(Retry { attempts: Some(2), ..Retry::default() }, None);
    assert!(!two_attempts.is_last());
    two_attempts.count();
    assert!(two_attempts.is_last());
    assert_eq!(two_attempts.tried(), 1, "is_last does not count an attempt");
    assert!(Schedule::new(Retry::ONCE, None).is_last());
    assert!(!Schedule::new(Retry::default(), None).is_last());
}
