//! One suite for every kind of node: each lock keeps its guarantees on all of them, on one node and in clusters of
//! three and five. An SQLite node, a master behind sentinels and a Redis Cluster are always a single node.
//!
//! On memory, SQLite and three Redis servers, each claim is a test of its own. On the other kinds, which are slow to
//! start, the claims of a topic share the servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backend;
mod breaking;
mod elections;
mod giving_back;
mod handing;
mod keeping;
mod listing;
mod many;
mod mixing;
mod naming;
mod reentrant;
mod remembering;
mod running;
mod shared;
mod slots;
mod taking;
mod waiting;

use std::time::Duration;

use backend::{Backend, Kind};

/// Only a failing test takes this long. Leases that are not released last longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes every claim a test, on one kind of node.
macro_rules! suite {
    ($backend:ident on $kind:expr; $($topic:ident { $($body:ident,)+ })+) => {
        mod $backend {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $body() {
                    let backend = Backend::start($kind).await;
                    tokio::time::timeout(PATIENCE, $topic::$body(&backend)).await.expect("the claim ends in time");
                }
            )+)+
        }
    };
}

/// Makes every topic a test. The nodes are started once per topic, and emptied for each claim.
macro_rules! suite_by_topic {
    ($backend:ident on $kind:expr; $($topic:ident { $($body:ident,)+ })+) => {
        mod $backend {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $topic() {
                    let backend = Backend::start($kind).await;
                    $(
                        println!("{}", stringify!($body));
                        backend.empty().await;
                        let run = tokio::time::timeout(PATIENCE, super::$topic::$body(&backend));
                        run.await.expect("the claim ends in time");
                    )+
                }
            )+
        }
    };
}

/// The suite on every kind of node.
macro_rules! on_all {
    ($($suite:ident $backend:ident on $kind:expr;)+) => {
        $($suite! {
            $backend on $kind;
            taking {
                a_free_lock_is_acquired_at_once,
                a_held_lock_is_not_acquired,
                acquire_waits_until_the_lock_is_released,
                acquire_within_names_the_holder,
                the_label_is_that_of_the_lock_or_the_client,
                a_retry_limit_ends_acquire,
                two_names_do_not_disturb_each_other,
                plain_and_fenced_exclude_each_other,
                one_holder_at_a_time_and_fences_grow,
                a_plain_lock_has_no_fence,
            }
            keeping {
                extending_by_hand_keeps_a_lease,
                an_unrenewed_lease_expires,
                an_expired_lease_does_not_affect_the_next_holder,
                a_crashed_holder_blocks_the_lock_for_its_ttl,
                the_watchdog_keeps_a_lease,
                the_lifetime_cap_ends_a_lease,
            }
            giving_back {
                release_frees,
                release_is_idempotent,
                drop_frees,
                a_dropped_release_still_frees,
                closing_ends_leases_and_delivers_releases,
                a_closed_client_acquires_nothing,
                a_lease_keeps_its_client_until_it_is_dropped,
                a_leaked_lease_ends_at_its_lifetime_limit,
            }
            handing {
                a_lease_of_any_kind_can_be_detached,
                a_detached_lease_is_not_renewed,
                extensions_keep_a_detached_lease,
                an_ended_lease_cannot_be_detached,
                extending_does_not_change_the_holder,
                releasing_one_entry_leaves_the_others,
                a_closed_client_reports_that_it_is_closed,
            }
            listing {
                names_with_holders_or_waiters_are_listed,
                a_filter_selects_names,
                every_name_can_be_listed,
                a_listing_continues_page_by_page_and_ends_at_its_limit,
                a_listing_continues_page_by_page,
            }
            running {
                run_returns_the_value_and_releases,
                run_drops_the_work_when_the_lease_is_lost,
                a_panic_in_the_work_releases,
            }
            naming {
                every_valid_name_can_be_locked,
                names_are_compared_by_bytes,
                the_smallest_and_the_largest_ttl_are_accepted,
            }
            waiting {
                a_wait_ends_at_its_deadline_with_the_holder_named,
                a_waiter_is_served_after_the_release,
                a_waiter_that_gives_up_leaves_the_queue,
                a_future_dropped_at_once_leaves_nothing,
                position_holder_and_grant_are_reported_in_order,
                a_free_lock_is_reported_once,
                a_try_does_not_overtake,
                a_dead_waiter_blocks_only_for_its_queue_position_or_one_ttl,
                an_inspection_shows_the_holder_and_the_number_of_waiters,
                an_inspection_shows_the_kind_of_hold,
            }
            reentrant {
                the_owner_enters_again_and_others_do_not,
                entries_end_in_any_order,
                the_last_exit_lets_a_waiter_in,
                an_owner_does_not_wait_behind_others,
                an_owner_passed_as_text_enters_elsewhere,
                all_entries_have_one_fence,
                an_owner_has_a_fence_for_each_name,
                a_cancelled_entry_does_not_affect_the_others,
                each_entry_is_renewed_by_itself,
                a_forgotten_entry_does_not_affect_the_others,
                a_forgotten_entry_ends_with_its_own_ttl,
                an_owner_that_lost_its_entries_must_acquire_again,
                a_retired_owner_loses_its_entries_and_cannot_enter,
                a_waiter_learns_that_it_is_retired,
                an_owner_is_retired_from_one_name_only,
                readers_are_retired_one_by_one,
            }
            shared {
                many_read_or_one_writes,
                readers_and_exclusive_locks_exclude_each_other,
                a_waiting_writer_is_not_overtaken_by_readers,
                readers_that_waited_enter_together,
                an_upgrade_is_refused_at_once,
                a_clone_has_another_owner,
                a_forgotten_share_ends_with_its_own_ttl,
                a_forgotten_share_does_not_affect_the_others,
                fences_grow_from_readers_to_writers_and_back,
                an_owner_that_reads_reads_again_at_once_with_the_same_fence,
            }
            slots {
                a_semaphore_has_at_most_its_permits_of_holders,
                a_release_lets_the_next_in,
                each_slot_has_a_fence_of_its_own,
                another_number_of_permits_is_refused_with_both_numbers,
                one_permit_is_an_exclusive_lock,
                all_waiters_for_slots_are_served,
                a_crashed_holder_frees_its_slot_and_no_other,
            }
            many {
                names_are_sorted_and_locked_once,
                there_is_one_fence_for_each_name,
                a_set_is_released_if_one_name_is_held,
                a_set_keeps_what_it_has_while_it_waits,
                a_cancelled_set_releases_all_names,
                overlapping_sets_do_not_deadlock,
                dropping_a_set_releases_all_names,
                a_set_is_detached_as_a_whole_or_released,
            }
            elections {
                the_next_leads_when_the_leader_steps_down,
                the_leader_is_known_by_its_label,
                a_follower_learns_of_changes,
                a_disconnected_leader_stops_leading,
                a_cancelled_candidacy_leaves_the_queue,
            }
            breaking {
                the_holder_of_a_broken_lease_learns_at_once,
                a_drained_lock_stays_held_until_it_would_have_expired,
                a_drained_lease_is_shown_as_broken,
                a_waiter_gets_a_lock_that_is_broken_now,
                another_fence_breaks_nothing,
                a_free_lock_is_not_broken,
                a_broken_lock_can_be_broken_again,
                a_break_during_renewals_succeeds,
                all_entries_of_an_owner_are_broken,
                all_readers_are_broken,
                all_slots_are_broken,
                a_plain_lock_is_broken_by_its_digest,
            }
            remembering {
                grants_and_releases_are_recorded_once,
                a_closed_client_has_written_all_events,
                without_history_only_breaks_are_recorded,
                a_loss_is_recorded_with_its_reason,
                an_expired_detached_lease_is_recorded_as_lost_once,
                a_released_lease_is_not_recorded_as_lost,
                the_end_of_an_owner_is_recorded,
            }
            mixing {
                every_kind_excludes_every_other,
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

on_all! {
    suite memory_x1 on Kind::Memory(1);
    suite memory_x3 on Kind::Memory(3);
    suite sqlite on Kind::Sqlite;
    suite redis_x3 on Kind::Redis(3);
    suite_by_topic redis_x1 on Kind::Redis(1);
    suite_by_topic redis_x5 on Kind::Redis(5);
    suite_by_topic sentinel on Kind::Sentinel;
    suite_by_topic cluster on Kind::Cluster;
}

// Requests that are refused before they are sent: no server may have anything of them.
suite! {
    no_node on Kind::Redis(1);
    naming {
        an_invalid_name_is_refused,
        a_ttl_out_of_bounds_is_refused,
    }
    slots {
        a_number_of_permits_out_of_bounds_is_refused,
    }
    many {
        an_empty_set_or_an_invalid_name_is_refused,
    }
}
