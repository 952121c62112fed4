use super::*;
use crate::terms::LIFETIME_DEFAULT;
use crate::testing::{CountingRng, at, ms, ttl};

fn watchdog(every: Option<Duration>, lifetime: Duration) -> Watchdog {
    Watchdog::new(Renewals::Watchdog { every, lifetime }, ttl(9_000), at(100))
}

#[test]
fn the_default_time_between_renewals_is_a_third_of_the_ttl() {
    assert_eq!(Watchdog::new(Renewals::default(), ttl(9_000), at(100)).due(), Some(at(3_100)));
    assert_eq!(watchdog(Some(ms(500)), LIFETIME_DEFAULT).due(), Some(at(600)));
}

#[test]
fn the_next_renewal_is_counted_from_when_a_majority_was_asked() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    watchdog.renewed(at(3_100));
    assert_eq!(watchdog.due(), Some(at(6_100)));
}

#[test]
fn a_failed_renewal_is_repeated_within_one_node_deadline() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    watchdog.failed(at(3_300), ms(200), &mut CountingRng::low());
    assert_eq!(watchdog.due(), Some(at(3_400)));
    watchdog.renewed(at(3_400));
    watchdog.failed(at(3_300), ms(200), &mut CountingRng::high());
    assert_eq!(watchdog.due(), Some(at(3_500)));
}

#[test]
fn the_delay_after_a_failed_renewal_grows_until_one_succeeds() {
    let mut watchdog = watchdog(None, LIFETIME_DEFAULT);
    let mut delay_after_failure = || {
        watchdog.failed(at(3_000), ms(100), &mut CountingRng::high());
        watchdog.due().map(|due| due.since(at(3_000)))
    };
    // The time between renewals is 3 s, and an eighth of it is 375 ms.
    assert_eq!([(); 4].map(|()| delay_after_failure()), [ms(100), ms(200), ms(375), ms(375)].map(Some));
    watchdog.renewed(at(3_000));
    watchdog.failed(at(3_300), ms(100), &mut CountingRng::high());
    assert_eq!(watchdog.due(), Some(at(3_400)));
    // An eighth of 300 ms is less than the node deadline, so the delay is at most the node deadline.
    watchdog.every = ms(300);
    watchdog.failed(at(4_000), ms(100), &mut CountingRng::high());
    assert_eq!(watchdog.due(), Some(at(4_100)));
}

#[test]
fn no_renewal_is_due_after_the_lifetime() {
    assert_eq!(watchdog(None, ms(2_999)).due(), None);
    let mut watchdog = watchdog(None, ms(3_000));
    assert_eq!(watchdog.due(), Some(at(3_100)), "a renewal may be due at the last moment of the lifetime");
    watchdog.renewed(at(3_100));
    assert_eq!(watchdog.due(), None);
    watchdog.failed(at(3_101), ms(200), &mut CountingRng::low());
    assert_eq!(watchdog.due(), None);
}

#[test]
fn a_watchdog_that_is_off_is_never_due() {
    let mut watchdog = Watchdog::new(Renewals::Off, ttl(9_000), at(0));
    assert_eq!(watchdog.due(), None);
    watchdog.renewed(at(0));
    assert_eq!(watchdog.due(), None);
    watchdog.failed(at(0), Duration::ZERO, &mut CountingRng::low());
    assert_eq!(watchdog.due(), None);
}

#[test]
fn an_endless_lifetime_does_not_overflow() {
    assert_eq!(watchdog(None, Duration::MAX).due(), Some(at(3_100)));
}
