//! One suite for every kind of node: whatever a lock promises, it promises on all of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backend;
#[path = "../common/mod.rs"]
mod common;
mod giving_back;
mod keeping;
mod naming;
mod running;
mod taking;

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

/// The suite on every kind of node.
macro_rules! on_all {
    ($($backend:ident on $kind:expr;)+) => {
        $(suite! {
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
                the_last_client_or_lock_takes_its_leases_along,
            }
            running {
                run_gives_the_works_value_and_frees,
                run_drops_the_work_when_the_lease_is_lost,
                a_panic_in_the_work_frees,
            }
            naming {
                every_name_that_fits_is_a_name,
                names_are_told_apart_to_the_byte,
                a_name_that_does_not_fit_is_refused,
                a_ttl_out_of_bounds_is_refused,
                the_bounds_of_a_ttl_are_within_them,
            }
        })+
    };
}

on_all! {
    memory_x1 on Kind::Memory(1);
    memory_x5 on Kind::Memory(5);
    sqlite on Kind::Sqlite;
    redis_x1 on Kind::Redis(1);
    redis_x3 on Kind::Redis(3);
    redis_x5 on Kind::Redis(5);
}
