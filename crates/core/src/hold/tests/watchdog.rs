use super::*;
use crate::terms::LIFETIME_DEFAULT;
use crate::testing::{Loaded, at, ms, ttl};

fn watchdog(every: Option<Duration>, lifetime: Duration) -> Watchdog {
    Watchdog::new(Renewals::Watchdog { every, lifetime }, ttl(9_000), at(100))
}

#[test]
fn a_third_of_the_ttl_is_the_default() {
    assert_eq!(Watchdog::new(Renewals::default(), ttl(9_000), at(100)).due(), Some(at(3_100)));
    assert_eq!(watchdog(Some(ms(500)), LIFETIME_DEFAULT).due(), Some(at(600)));
}

#[test]
fn a_renewal_counts_from_when_a_majority_was_asked() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    watchdog.renewed(at(3_100));
    assert_eq!(watchdog.due(), Some(at(6_100)));
}

#[test]
fn a_failed_round_is_repeated_within_the_node_deadline() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    watchdog.failed(at(3_300), ms(200), &mut Loaded::low());
    assert_eq!(watchdog.due(), Some(at(3_400)));
    watchdog.renewed(at(3_400));
    watchdog.failed(at(3_300), ms(200), &mut Loaded::high());
    assert_eq!(watchdog.due(), Some(at(3_500)));
}

#[test]
fn who_fails_again_and_again_tries_less_and_less_often_until_it_works() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    let mut pauses = || {
        watchdog.failed(at(3_000), ms(100), &mut Loaded::high());
        watchdog.due().map(|due| due.since(at(3_000)))
    };
    // A third of the ttl is 3 seconds.
    assert_eq!([pauses(), pauses(), pauses(), pauses()], [ms(100), ms(200), ms(375), ms(375)].map(Some));
    watchdog.renewed(at(3_000));
    watchdog.failed(at(3_300), ms(100), &mut Loaded::high());
    assert_eq!(watchdog.due(), Some(at(3_400)));
    // Where there is little time, it is tried as often as nodes have time to answer.
    watchdog.every = ms(300);
    watchdog.failed(at(4_000), ms(100), &mut Loaded::high());
    assert_eq!(watchdog.due(), Some(at(4_100)));
}

#[test]
fn nothing_is_due_after_the_lifetime() {
    assert_eq!(watchdog(None, ms(2_999)).due(), None);
    let mut watchdog = watchdog(None, ms(3_000));
    assert_eq!(watchdog.due(), Some(at(3_100)), "the last moment still counts");
    watchdog.renewed(at(3_100));
    assert_eq!(watchdog.due(), None);
    watchdog.failed(at(3_101), ms(200), &mut Loaded::low());
    assert_eq!(watchdog.due(), None);
}

#[test]
fn off_stays_off() {
    let mut watchdog = Watchdog::new(Renewals::Off, ttl(9_000), at(0));
    assert_eq!(watchdog.due(), None);
    watchdog.renewed(at(0));
    assert_eq!(watchdog.due(), None);
    watchdog.failed(at(0), Duration::ZERO, &mut Loaded::low());
    assert_eq!(watchdog.due(), None);
}

#[test]
fn an_endless_lifetime_does_not_overflow() {
    assert_eq!(watchdog(None, Duration::MAX).due(), Some(at(3_100)));
}
