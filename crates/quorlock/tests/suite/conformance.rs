//! The conformance suite: every kind of lock keeps its guarantees on every kind of node, on one node and in clusters of
//! three and five. An SQLite node, a master behind sentinels, or a Redis Cluster is always the only node.
//!
//! Each module is a topic, and each of its public functions checks one guarantee. For nodes in memory, an SQLite file,
//! and three Redis servers, each check is a separate test. The other nodes start slowly, so for them each topic is one
//! test, and its checks share the servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acquiring;
mod all_kinds;
mod backend;
mod breaking;
mod detaching;
mod elections;
mod history;
mod listing;
mod name_sets;
mod naming;
mod reentrant;
mod releasing;
mod renewing;
mod running;
mod shared;
mod slots;
mod waiting;

use std::time::Duration;

use backend::{Backend, NodeKind};

/// The time limit of a check. Only a failing check reaches it. It is shorter than [`backend::LONG`]: a check fails if
/// it waits for a lease to expire that should have been released.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Makes every check a test on one kind of node.
macro_rules! suite {
    ($backend:ident on $kind:expr; $($topic:ident { $($check:ident,)+ })+) => {
        mod $backend {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    let backend = Backend::start($kind).await;
                    tokio::time::timeout(TIME_LIMIT, $topic::$check(&backend)).await.expect("the check ends in time");
                }
            )+)+
        }
    };
}

/// Makes every topic a test on one kind of node. The nodes start once for each topic, and are emptied before each
/// check.
macro_rules! suite_of_topics {
    ($backend:ident on $kind:expr; $($topic:ident { $($check:ident,)+ })+) => {
        mod $backend {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $topic() {
                    let backend = Backend::start($kind).await;
                    $(
                        println!("{}", stringify!($check));
                        backend.empty().await;
                        let check = tokio::time::timeout(TIME_LIMIT, super::$topic::$check(&backend));
                        check.await.expect("the check ends in time");
                    )+
                }
            )+
        }
    };
}

/// Makes the tests of all checks, on every kind of node.
macro_rules! make_suites {
    ($($suite:ident $backend:ident on $kind:expr;)+) => {
        $($suite! {
            $backend on $kind;
            acquiring {
                a_free_lock_is_acquired_at_once,
                a_held_lock_is_not_acquired,
                acquire_waits_until_the_lock_is_released,
                acquire_within_names_the_holder,
                the_label_of_a_lock_replaces_the_label_of_its_client,
                an_acquire_ends_after_its_last_retry,
                leases_of_two_names_are_independent,
                plain_and_fenced_locks_exclude_each_other,
                there_is_one_holder_at_a_time_and_fences_grow,
                a_plain_lock_has_no_fence,
            }
            renewing {
                manual_extensions_keep_a_lease,
                an_unrenewed_lease_expires,
                an_expired_lease_does_not_affect_the_next_holder,
                a_crashed_holder_blocks_the_lock_for_its_ttl,
                the_watchdog_keeps_a_lease,
                a_lease_ends_at_its_lifetime_limit,
            }
            releasing {
                a_release_frees_the_lock,
                a_second_release_does_not_free_the_lock_of_the_next_holder,
                dropping_a_lease_frees_the_lock,
                a_dropped_release_still_frees_the_lock,
                closing_ends_leases_and_delivers_releases,
                a_closed_client_acquires_nothing,
                a_lease_keeps_its_client_until_it_is_dropped,
                a_leaked_lease_ends_at_its_lifetime_limit,
            }
            detaching {
                a_lease_of_any_kind_can_be_detached,
                a_detached_lease_is_not_renewed,
                extensions_keep_a_detached_lease,
                an_ended_lease_cannot_be_detached,
                extending_a_detached_lease_does_not_change_its_holder,
                releasing_one_detached_entry_leaves_the_other_entries,
                a_closed_client_cannot_use_detached_leases,
            }
            listing {
                names_with_holders_or_waiters_are_listed,
                a_filter_selects_names,
                every_name_can_be_listed,
                a_listing_reads_several_pages_and_ends_at_its_limit,
                pages_contain_all_matching_names,
            }
            running {
                run_returns_the_result_of_the_work_and_releases_the_lock,
                run_drops_the_work_when_its_lease_is_lost,
                a_panic_in_the_work_releases_the_lock,
            }
            naming {
                every_valid_name_can_be_locked,
                names_are_compared_by_bytes,
                the_smallest_and_the_largest_ttl_are_accepted,
            }
            waiting {
                a_wait_ends_at_its_deadline_and_names_the_holder,
                a_waiter_gets_the_lock_after_the_release,
                a_waiter_that_gives_up_leaves_the_queue,
                an_acquire_that_is_dropped_at_once_leaves_no_queue_position,
                position_holder_and_grant_are_reported_in_order,
                an_acquire_of_a_free_lock_reports_only_the_grant,
                try_acquire_does_not_overtake_waiters,
                a_dead_waiter_is_overtaken_only_after_its_queue_position_has_expired,
                an_inspection_shows_the_holder_and_the_number_of_waiters,
                an_inspection_shows_the_kind_of_hold,
            }
            reentrant {
                the_owner_enters_again_and_other_owners_do_not,
                entries_end_in_any_order,
                a_waiter_gets_the_lock_when_the_last_entry_ends,
                an_owner_enters_again_before_the_waiters,
                an_owner_that_is_passed_as_text_enters_with_another_client,
                all_entries_have_one_fence,
                an_owner_has_one_fence_for_each_name,
                a_cancelled_entry_does_not_affect_the_other_entries,
                each_entry_is_renewed_separately,
                an_entry_of_a_crashed_client_does_not_affect_the_other_entries,
                an_entry_of_a_crashed_client_ends_with_its_own_ttl,
                an_owner_that_lost_its_entries_must_acquire_again,
                a_retired_owner_loses_its_entries_and_cannot_enter_again,
                a_waiter_learns_that_its_owner_is_retired,
                an_owner_is_retired_from_one_name_only,
                retiring_a_reader_leaves_the_other_readers,
            }
            shared {
                many_readers_or_one_writer_hold_the_lock,
                readers_and_exclusive_locks_exclude_each_other,
                a_waiting_writer_is_not_overtaken_by_readers,
                waiting_readers_get_the_lock_together,
                an_upgrade_from_read_to_write_is_refused_at_once,
                a_clone_of_a_read_write_lock_has_another_owner,
                a_read_lease_of_a_crashed_client_ends_with_its_own_ttl,
                a_read_lease_of_a_crashed_client_does_not_affect_the_other_readers,
                fences_grow_from_readers_to_writers_and_back,
                an_owner_that_reads_already_reads_again_at_once_with_the_same_fence,
            }
            slots {
                a_semaphore_has_at_most_as_many_holders_as_permits,
                a_released_slot_goes_to_the_next_waiter,
                each_slot_has_its_own_fence,
                a_semaphore_with_another_number_of_permits_is_refused,
                a_semaphore_with_one_permit_is_an_exclusive_lock,
                all_waiters_get_a_slot,
                a_crashed_holder_frees_its_slot_and_no_other,
            }
            name_sets {
                a_set_sorts_its_names_and_locks_each_name_once,
                a_set_has_one_fence_for_each_name,
                a_set_that_gives_up_releases_its_names,
                a_set_keeps_its_first_names_while_it_waits_for_the_next_name,
                a_cancelled_set_releases_all_names,
                overlapping_sets_do_not_deadlock,
                dropping_a_set_releases_all_names,
                a_set_is_detached_completely_or_released,
            }
            elections {
                the_next_candidate_leads_when_the_leader_steps_down,
                the_leader_is_known_by_its_label,
                a_follower_learns_of_every_leader,
                a_leader_whose_client_is_closed_stops_leading,
                a_cancelled_candidacy_leaves_the_queue,
            }
            breaking {
                the_holder_of_a_broken_lease_learns_of_the_break_at_once,
                a_drained_lock_stays_held_until_it_would_have_expired,
                a_drained_lease_is_shown_as_broken,
                a_waiter_gets_a_lock_that_is_broken_now,
                a_break_of_an_earlier_fence_changes_nothing,
                a_free_lock_is_not_broken,
                a_broken_lock_can_be_broken_again,
                a_break_during_renewals_succeeds,
                a_break_ends_all_entries_of_an_owner,
                a_break_ends_the_leases_of_all_readers,
                a_break_ends_the_leases_of_all_slots,
                a_plain_lock_is_broken_by_its_digest,
            }
            history {
                grants_and_releases_are_recorded_once,
                a_closed_client_has_written_all_events,
                without_history_only_breaks_are_recorded,
                a_loss_is_recorded_with_its_reason,
                an_expired_detached_lease_is_recorded_as_lost_once,
                a_released_lease_is_not_recorded_as_lost,
                the_retirement_of_an_owner_is_recorded,
            }
            all_kinds {
                every_kind_excludes_every_other_kind,
                fences_grow_from_kind_to_kind,
                every_kind_is_renewed,
                every_kind_expires_after_its_ttl,
                every_kind_ends_when_its_client_is_closed,
                every_kind_survives_the_drop_of_its_client_and_lock,
                an_expired_lease_of_any_kind_does_not_affect_the_next_holder,
            }
        })+
    };
}

make_suites! {
    suite memory_x1 on NodeKind::Memory(1);
    suite memory_x3 on NodeKind::Memory(3);
    suite sqlite on NodeKind::Sqlite;
    suite redis_x3 on NodeKind::Redis(3);
    suite_of_topics redis_x1 on NodeKind::Redis(1);
    suite_of_topics redis_x5 on NodeKind::Redis(5);
    suite_of_topics sentinel on NodeKind::Sentinel;
    suite_of_topics cluster on NodeKind::RedisCluster;
}

// The client refuses invalid requests before it sends anything to a server, so one kind of node is enough.
suite! {
    invalid_requests on NodeKind::Redis(1);
    naming {
        an_invalid_name_is_refused,
        a_ttl_out_of_bounds_is_refused,
    }
    slots {
        a_number_of_permits_out_of_bounds_is_refused,
    }
    name_sets {
        an_empty_set_or_an_invalid_name_is_refused,
    }
}
