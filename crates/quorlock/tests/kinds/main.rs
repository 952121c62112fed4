//! Each kind of lock against a simple model: what is granted, what is refused, and how the nodes then stand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
#[path = "../suite/common/mod.rs"]
mod common;
mod leading;
mod many;
mod model;
mod story;

use bench::{Bench, Nodes};
use proptest::collection::vec;

/// How much one case does at most.
const STEPS_MAX: usize = 20;

/// A property as a test of its own on each set of nodes.
macro_rules! properties {
    ($($property:ident: $steps:expr => $run:path;)+) => { $(
        mod $property {
            use super::*;

            #[test]
            fn on_one_memory_node() {
                Bench::open(Nodes::memory(1)).check(200, &vec($steps, 1..=STEPS_MAX), &$run);
            }

            #[test]
            fn on_three_memory_nodes() {
                Bench::open(Nodes::memory(3)).check(200, &vec($steps, 1..=STEPS_MAX), &$run);
            }

            #[test]
            fn on_one_redis_server() {
                Bench::open(Nodes::redis(1)).check(60, &vec($steps, 1..=STEPS_MAX), &$run);
            }

            #[test]
            fn on_three_redis_servers() {
                Bench::open(Nodes::redis(3)).check(60, &vec($steps, 1..=STEPS_MAX), &$run);
            }
        }
    )+ };
}

properties! {
    an_exclusive_lock_has_one_holder: story::steps(model::exclusive()) => story::run;
    a_reentrant_lock_has_one_owner: story::steps(model::reentrant()) => story::run;
    a_shared_lock_has_readers_or_one_writer: story::steps(model::shared()) => story::run;
    a_semaphore_has_as_many_holders_as_permits: story::steps(model::slots()) => story::run;
    kinds_keep_out_of_each_others_way: story::steps(model::any()) => story::run;
    a_set_of_names_is_held_whole_or_not_at_all: many::steps() => many::run;
    there_is_one_leader_and_all_know_it: leading::steps() => leading::run;
}
