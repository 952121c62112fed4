//! One suite for every kind of node: each lock keeps its promises on all of them, alone and in quorums of three and five. An
//! SQLite node, a master behind sentinels and a Redis Cluster stand alone by design.
//!
//! On memory, SQLite and three Redis servers, each claim is a test of its own. On the others, whose servers would have to be
//! started for each of them, the claims of a topic share the servers.

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

/// Only a failing test takes this long; a lease that nobody releases lasts longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every body as a test of its own, on one kind of node.
macro_rules! suite {
    ($backend:ident on $kind:expr; $($topic:ident { $($body:ident,)+ })+) => {
        mod $backend {
            use super::*;
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $body() {
                    let backend = Backend::start($kind).await;
                    tokio::time::timeout(PATIENCE, $topic::$body(&backend)).await.expect("it must come to an end");
                }
            )+)+
        }
    };
}

/// One test for each topic. The nodes are started once for each topic, and emptied for each body.
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
                        run.await.expect("it must come to an end");
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
                a_free_lock_is_ours_at_once,
                a_held_lock_is_not_ours,
                acquire_waits_until_the_lock_is_released,
                acquire_within_says_who_holds_it,
                the_label_is_the_locks_own_or_the_clients,
                a_count_of_retries_ends_acquire,
                two_names_do_not_disturb_each_other,
                plain_and_fenced_exclude_each_other,
                one_holder_at_a_time_and_fences_grow,
                a_plain_lock_has_no_fence,
            }
            keeping {
                extending_by_hand_keeps_a_lease,
                an_unrenewed_lease_lapses,
                a_lapsed_lease_is_no_danger_to_the_next,
                a_crashed_holder_is_in_the_way_for_its_ttl,
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
                a_lease_of_any_kind_travels,
                nobody_renews_a_lease_that_was_handed_over,
                extensions_keep_a_lease_that_was_handed_over,
                a_lease_that_is_over_cannot_be_handed_over,
                whoever_extends_does_not_become_the_holder,
                releasing_one_entry_leaves_the_others,
                a_closed_client_says_so,
            }
            listing {
                what_is_held_or_waited_for_is_listed,
                a_filter_picks_names,
                every_name_can_be_listed,
                a_listing_goes_on_from_page_to_page_and_ends_at_its_limit,
                a_listing_goes_on_page_by_page,
            }
            running {
                run_gives_the_works_value_and_frees,
                run_drops_the_work_when_the_lease_is_lost,
                a_panic_in_the_work_frees,
            }
            naming {
                every_name_that_fits_is_a_name,
                names_are_told_apart_to_the_byte,
                the_bounds_of_a_ttl_are_within_them,
            }
            waiting {
                a_wait_ends_at_its_deadline_with_the_holder_named,
                whoever_waits_is_served_after_the_release,
                whoever_gives_up_leaves_the_queue,
                a_future_that_is_dropped_at_once_leaves_nothing,
                the_place_the_holder_and_the_grant_are_told_in_order,
                what_is_free_is_told_once,
                a_try_does_not_overtake,
                a_waiter_that_is_gone_is_in_the_way_no_longer_than_its_place_or_its_turn,
                an_inspection_shows_who_holds_and_how_many_wait,
                an_inspection_shows_how_it_is_held,
            }
            reentrant {
                the_owner_enters_again_and_others_do_not,
                entries_end_in_any_order,
                the_last_exit_lets_a_waiter_in,
                an_owner_does_not_wait_behind_others,
                an_owner_passed_on_as_text_enters_elsewhere,
                all_entries_have_one_fence,
                an_owner_has_a_fence_for_each_name,
                an_entry_that_is_given_up_leaves_the_others,
                each_entry_is_renewed_by_itself,
                an_entry_that_is_forgotten_leaves_the_others,
                an_entry_that_is_forgotten_ends_with_its_own_ttl,
                an_owner_that_lost_everything_starts_anew,
                one_who_is_retired_has_nothing_and_is_not_let_in,
                one_who_waits_learns_that_it_is_retired,
                an_owner_is_retired_from_one_name_only,
                readers_are_retired_one_by_one,
            }
            shared {
                many_read_or_one_writes,
                readers_and_exclusive_locks_exclude_each_other,
                a_waiting_writer_is_not_overtaken_by_readers,
                readers_that_waited_enter_together,
                an_upgrade_is_told_at_once,
                a_clone_is_another_party,
                a_share_that_is_forgotten_ends_with_its_own_ttl,
                a_share_that_is_forgotten_leaves_the_others,
                fences_grow_from_readers_to_writers_and_back,
                an_owner_that_reads_reads_again_at_once_with_the_same_fence,
            }
            slots {
                so_many_hold_it_and_no_more,
                a_release_lets_the_next_in,
                each_slot_has_a_fence_of_its_own,
                another_number_of_permits_is_refused_with_both_numbers,
                one_permit_is_an_exclusive_lock,
                all_who_wait_for_slots_are_served,
                a_crashed_holder_frees_its_slot_and_no_other,
            }
            many {
                names_are_sorted_and_taken_once,
                there_is_one_fence_for_each_name,
                nothing_is_held_when_one_is_not_to_be_had,
                a_set_keeps_what_it_has_while_it_waits,
                a_set_that_is_given_up_gives_everything_back,
                overlapping_sets_do_not_wait_for_each_other,
                dropping_a_set_frees_all_of_it,
                a_set_is_handed_over_as_a_whole_or_released,
            }
            elections {
                the_next_leads_when_the_leader_steps_down,
                the_leader_is_known_by_its_label,
                a_follower_is_told_of_changes,
                a_leader_that_is_cut_off_leads_no_more,
                a_candidacy_that_is_given_up_is_over,
            }
            breaking {
                the_holder_of_a_broken_lease_learns_at_once,
                a_drained_lock_keeps_everybody_out_until_it_would_have_lapsed,
                a_drained_lease_is_shown_as_broken,
                a_waiter_gets_what_is_broken_now,
                another_fence_breaks_nothing,
                what_nobody_holds_is_not_broken,
                what_was_broken_can_be_broken_again,
                a_break_in_the_middle_of_renewals_is_a_break,
                all_entries_of_an_owner_are_broken,
                all_readers_are_broken,
                all_slots_are_broken,
                a_plain_lock_is_broken_by_its_digest,
            }
            remembering {
                grants_and_releases_are_remembered_once,
                a_client_that_is_closed_has_written_everything,
                nothing_is_remembered_unasked_but_breaks,
                a_loss_is_remembered_with_its_reason,
                a_handed_lease_that_lapsed_is_remembered_as_lost_once,
                what_was_released_is_not_remembered_as_lost,
                the_end_of_an_owner_is_remembered_like_any_other,
            }
            mixing {
                every_kind_excludes_every_other,
                fences_grow_from_kind_to_kind,
                every_kind_is_renewed,
                every_kind_is_out_of_the_way_after_its_ttl,
                every_kind_ends_when_its_client_is_closed,
                every_kind_outlives_the_last_client_and_lock,
                a_lapsed_lease_of_any_kind_is_no_danger_to_the_next,
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

// Requests that no node receives: nothing of them must be on a server.
suite! {
    no_node on Kind::Redis(1);
    naming {
        a_name_that_does_not_fit_is_refused,
        a_ttl_out_of_bounds_is_refused,
    }
    slots {
        a_number_of_permits_out_of_bounds_is_refused,
    }
    many {
        a_set_without_names_or_with_an_impossible_one_is_refused,
    }
}
