//! Under faults, all living clients are served, and the number of holders stays within its limit.

use super::storm::{Storm, Weather, Wish};
use crate::common::draw::{Draw, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_living_waiters_are_served_while_others_are_killed() {
    let weather = Weather { clients: 6, turns: 6, seed: seed() };
    let storm = Storm::rage(weather, |_| Wish::Lock).await;
    assert_eq!(storm.history.violations(), Vec::<String>::new());
    assert_eq!(storm.history.most_at_once(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_keeps_its_limit_under_faults() {
    let weather = Weather { clients: 5, turns: 6, seed: seed() };
    let storm = Storm::rage(weather, |_| Wish::Slot { permits: 2 }).await;
    assert_eq!(storm.history.violations(), Vec::<String>::new());
    assert!(storm.history.most_at_once() <= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_is_alone_under_faults() {
    let weather = Weather { clients: 5, turns: 6, seed: seed() };
    let wish = |draw: &mut Draw| if draw.below(2) == 0 { Wish::Write } else { Wish::Read };
    let storm = Storm::rage(weather, wish).await;
    assert_eq!(storm.history.violations(), Vec::<String>::new());
}
