//! Shows why rules of the protocol exist: with a rule, a scenario keeps a guarantee; without the rule, it breaks the
//! guarantee.
//!
//! In the other tests, `QUORLOCK_WITHOUT` can switch off a rule. The tests that need this rule must then fail.
#![cfg(feature = "mutants")]

use crate::common::builder;
use crate::scenarios::{lost_reply, node_ahead, restarted_node, slow_reply};
use quorlock::{ClientBuilder, Rule, Rules};

fn builder_without(rule: Rule) -> impl Fn() -> ClientBuilder {
    move || builder().rules(Rules::without(rule))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quarantine_keeps_a_restarted_node_from_voting_twice() {
    assert!(!restarted_node::run(&builder, &[]).await.has_two_holders());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_quarantine_a_restarted_node_votes_twice() {
    assert!(restarted_node::run(&builder_without(Rule::Quarantine), &[]).await.has_two_holders());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_reaches_the_node_whose_reply_was_lost() {
    assert!(!lost_reply::leaves_a_vote(&builder).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_release_everywhere_a_lost_reply_leaves_a_vote() {
    assert!(lost_reply::leaves_a_vote(&builder_without(Rule::ReleaseEverywhere)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn validity_ends_before_the_votes_of_slow_nodes_expire() {
    assert!(!slow_reply::has_two_holders(&builder).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_count_from_send_validity_outlives_the_votes_of_slow_nodes() {
    assert!(slow_reply::has_two_holders(&builder_without(Rule::CountFromSend)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unequal_grants_are_raised_to_one_fence() {
    let [first_fence, second_fence] = node_ahead::run(&builder).await;
    assert!(second_fence > first_fence, "fence {second_fence} after fence {first_fence}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_equal_fences_a_later_lease_gets_a_lower_fence() {
    let [first_fence, second_fence] = node_ahead::run(&builder_without(Rule::EqualFences)).await;
    assert!(second_fence <= first_fence, "fence {second_fence} after fence {first_fence}");
}
