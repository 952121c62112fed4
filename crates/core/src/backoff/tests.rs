use super::*;

struct Fixed(u64);
impl Rng for Fixed {
    fn bits(&mut self) -> u64 {
        self.0
    }
}

fn at(ms: u64) -> Moment {
    Moment::from_nanos(ms * 1_000_000)
}

#[test]
fn delays_grow_within_their_bounds() {
    let retry = Retry { min: Duration::from_millis(10), max: Duration::from_millis(35), attempts: None };
    let mut slow = Schedule::new(retry, None);
    let mut quick = Schedule::new(retry, None);
    let longest: alloc::vec::Vec<_> = (0..3).map(|_| slow.next(at(0), &mut Fixed(u64::MAX)).unwrap()).collect();
    assert_eq!(longest, [at(20), at(35), at(35)]);
    for _ in 0..3 {
        assert_eq!(quick.next(at(0), &mut Fixed(0)), Some(at(10)));
    }
}

#[test]
fn the_count_and_the_deadline_end_it() {
    let mut counted = Schedule::new(Retry { attempts: Some(2), ..Retry::default() }, None);
    assert!(counted.next(at(0), &mut Fixed(0)).is_some());
    assert!(counted.next(at(0), &mut Fixed(0)).is_none());
    let mut timed = Schedule::new(Retry::default(), Some(at(3)));
    assert_eq!(timed.next(at(1), &mut Fixed(u64::MAX)), Some(at(3)), "the last attempt is at the last call");
    assert_eq!(timed.next(at(3), &mut Fixed(0)), None);
}

#[test]
fn extreme_policies_do_not_overflow() {
    let forever = Retry { min: Duration::MAX, max: Duration::ZERO, attempts: None };
    let mut schedule = Schedule::new(Retry { min: Duration::from_secs(u64::MAX / 4), ..forever }, None);
    assert!(schedule.next(at(1), &mut Fixed(u64::MAX)).is_some());
}

#[test]
fn the_last_attempt_is_known_while_it_is_under_way() {
    let mut counted = Schedule::new(Retry { attempts: Some(2), ..Retry::default() }, None);
    assert!(!counted.is_last());
    counted.count();
    assert!(counted.is_last());
    assert_eq!(counted.tried(), 1, "asking about it does not count");
    assert!(Schedule::new(Retry::ONCE, None).is_last());
    assert!(!Schedule::new(Retry::default(), None).is_last());
}
