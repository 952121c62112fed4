use super::*;
use crate::vote::QueuePosition;
use core::time::Duration;

fn grant(fence: u64) -> Outcome {
    Outcome::Voted { vote: Vote::grant(Fence::new(fence)), sent: Moment::from_nanos(1) }
}

fn refusal(why: Refusal) -> Outcome {
    Outcome::Voted { vote: Vote::Refusal(why), sent: Moment::from_nanos(1) }
}

fn held() -> Outcome {
    let queue = QueuePosition::default();
    refusal(Refusal::Held { holder: None, remaining: Some(Duration::from_secs(1)), fence: Fence::new(9), queue })
}

fn round(nodes: usize, outcomes: &[Outcome]) -> Round {
    let mut round = Round::new(Quorum::new(nodes).unwrap());
    for (node, outcome) in outcomes.iter().enumerate() {
        round.take(node, outcome.clone());
    }
    round
}

#[test]
fn a_silence_is_no_refusal_and_does_not_replace_a_grant() {
    let mut round = round(3, &[grant(1), Outcome::Silent(Silence::Late)]);
    round.take(0, Outcome::Silent(Silence::Late));
    assert_eq!(round.grants().count(), 1);
    assert_eq!(round.tally().refused(), 0);
    assert_eq!(round.tally().silent(), 2);
}

#[test]
fn a_majority_is_out_of_reach_once_a_majority_has_refused() {
    assert!(!round(5, &[held(), held()]).is_out_of_reach());
    assert!(round(5, &[held(), held(), held()]).is_out_of_reach());
}

#[test]
fn a_silent_majority_is_no_quorum_even_if_a_node_refuses() {
    let late = || Outcome::Silent(Silence::Late);
    assert_eq!(round(5, &[held(), late(), late()]).defeat(), Verdict::Held);
    assert_eq!(round(5, &[held(), late(), late(), late()]).defeat(), Verdict::NoQuorum);
}

#[test]
fn nodes_that_were_cut_off_are_no_lost_quorum_unless_too_many_others_are_silent() {
    let (late, cut_off) = (|| Outcome::Silent(Silence::Late), || Outcome::Silent(Silence::CutOff));
    assert_eq!(round(5, &[grant(1), grant(1), cut_off(), late(), late()]).defeat(), Verdict::CutOff);
    assert_eq!(round(5, &[grant(1), cut_off(), late(), late(), late()]).defeat(), Verdict::NoQuorum);
    assert_eq!(round(5, &[held(), cut_off(), cut_off(), grant(1), grant(1)]).defeat(), Verdict::Held);
}

#[test]
fn a_wrong_epoch_counts_as_silence() {
    let round = round(1, &[refusal(Refusal::WrongEpoch)]);
    assert_eq!(round.tally().silent(), 1);
}

#[test]
fn a_vote_of_an_unknown_node_is_ignored() {
    let mut round = round(3, &[]);
    round.take(7, grant(1));
    assert_eq!(round.grants().count(), 0);
}

#[test]
fn the_text_of_a_tally_counts_each_kind_of_vote() {
    let round = round(
        5,
        &[
            grant(1),
            held(),
            Outcome::Silent(Silence::Quarantined(Duration::from_secs(3))),
            Outcome::Silent(Silence::Late),
        ],
    );
    assert_eq!(alloc::format!("{}", round.tally()), "1 of 5 granted, 1 refused, 1 quarantined, 1 not heard, 1 silent");
    assert_eq!(round.highest_fence(), Fence::new(9));
}

#[test]
fn the_likeliest_slot_is_granted_or_free_on_the_most_nodes() {
    let slot = |index, free: &[u32]| {
        let slot = Some(GrantedSlot { index, free: free.to_vec() });
        Outcome::Voted { vote: Vote::Grant { fence: Fence::new(1), slot }, sent: Moment::from_nanos(1) }
    };
    let round = round(5, &[slot(0, &[2]), slot(1, &[2]), slot(1, &[]), slot(2, &[0]), held()]);
    assert_eq!((round.best_slot(), round.likeliest_slot()), (Some(1), Some(2)));
    assert_eq!([0, 1, 2, 3].map(|slot| round.offers_of(slot)), [2, 2, 3, 0]);
}
