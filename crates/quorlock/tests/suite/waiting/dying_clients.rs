//! While clients die and the network loses messages, all living clients get the lock, and there are never too many
//! holders.

use super::fault_run::{FaultRun, LockKind, RunSettings};
use crate::common::random::{Random, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_living_clients_get_the_lock_while_other_clients_die() {
    let settings = RunSettings { clients: 6, leases_per_client: 6, seed: seed() };
    let run = FaultRun::run(settings, |_| LockKind::Exclusive).await;
    assert_eq!(run.history.violations(), Vec::<String>::new());
    assert_eq!(run.history.max_concurrent(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_semaphore_never_has_too_many_holders_under_faults() {
    let settings = RunSettings { clients: 5, leases_per_client: 6, seed: seed() };
    let run = FaultRun::run(settings, |_| LockKind::Slot { permits: 2 }).await;
    assert_eq!(run.history.violations(), Vec::<String>::new());
    assert!(run.history.max_concurrent() <= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_excludes_all_others_under_faults() {
    let settings = RunSettings { clients: 5, leases_per_client: 6, seed: seed() };
    let kind = |random: &mut Random| if random.below(2) == 0 { LockKind::Write } else { LockKind::Read };
    let run = FaultRun::run(settings, kind).await;
    assert_eq!(run.history.violations(), Vec::<String>::new());
}
