use super::*;
use crate::testing::{all, by, roster, under};
use crate::vote::QueuePosition;
use core::time::Duration;

fn grant(fence: u64) -> Outcome {
    Outcome::Voted { vote: Vote::grant(Fence::new(fence)), elector: Elector::at(0), sent: Moment::from_nanos(1) }
}

fn refusal(why: Refusal) -> Outcome {
    Outcome::Voted { vote: Vote::Refusal(why), elector: Elector::at(0), sent: Moment::from_nanos(1) }
}

fn held() -> Outcome {
    let queue = QueuePosition::default();
    refusal(Refusal::Held { holder: None, remaining: Some(Duration::from_secs(1)), fence: Fence::new(9), queue })
}

fn round(nodes: usize, outcomes: &[Outcome]) -> Round {
    let mut round = Round::new(&all(nodes));
    for (node, outcome) in outcomes.iter().enumerate() {
        round.take(node, by(Elector::at(node), outcome.clone()));
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
        Outcome::Voted {
            vote: Vote::Grant { fence: Fence::new(1), slot },
            elector: Elector::at(0),
            sent: Moment::from_nanos(1),
        }
    };
    let round = round(5, &[slot(0, &[2]), slot(1, &[2]), slot(1, &[]), slot(2, &[0]), held()]);
    assert_eq!((round.best_slot(), round.likeliest_slot()), (Some(1), Some(2)));
    assert_eq!([0, 1, 2, 3].map(|slot| round.offers_of(slot)), [2, 2, 3, 0]);
}

#[test]
fn a_vote_of_a_server_that_is_no_member_counts_as_silence() {
    for vote in [grant(1), held()] {
        let mut round = round(3, &[vote.clone(), vote.clone()]);
        round.take(2, by(Elector::at(7), vote));
        assert!(matches!(round.tally().votes[2], NodeVote::Silent(Silence::Unfit(_))));
        assert_eq!(round.tally().silent(), 1);
    }
}

#[test]
fn two_positions_of_one_member_have_one_vote() {
    let counts = |votes: [(usize, Outcome); 2]| {
        let mut round = Round::new(&roster(3, 1, &[(0, 1), (1, 1)]));
        for (node, vote) in votes {
            round.take(node, by(under(1, 0), vote));
        }
        (round.grants().map(|grant| grant.node).collect::<Vec<_>>(), round.refusals().count())
    };
    assert_eq!(counts([(0, grant(1)), (2, grant(1))]), ([0].into(), 0));
    assert_eq!(counts([(0, held()), (2, held())]), ([].into(), 1));
    assert_eq!(counts([(0, held()), (2, grant(1))]), ([2].into(), 0), "the node has granted since");
    assert_eq!(counts([(0, grant(1)), (2, held())]), ([0].into(), 0), "the refusal may be older");
}

#[test]
fn a_node_with_a_new_roster_keeps_its_grant_and_is_asked_again() {
    let mut round = round(3, &[grant(1), refusal(Refusal::NewRoster), refusal(Refusal::NewRoster)]);
    round.take(0, by(Elector::at(0), refusal(Refusal::NewRoster)));
    assert_eq!((round.grants().count(), round.unanswered()), (1, 2));
    assert!(!round.is_out_of_reach());
    assert!(round.change_electors(&all(3)).iter().eq([0, 1, 2]), "even if the roster has not changed");
    assert!(round.change_electors(&all(3)).is_empty());
}

#[test]
fn a_vote_under_a_newer_roster_does_not_count_before_the_client_knows_that_roster() {
    let mut round = Round::new(&roster(3, 1, &[(0, 1), (1, 1), (2, 1)]));
    round.take(0, by(under(2, 0), grant(1)));
    assert_eq!((round.grants().count(), round.unanswered()), (0, 3));
    assert!(round.change_electors(&roster(3, 2, &[(0, 1), (1, 1), (3, 2)])).iter().eq([0]));
    round.take(0, by(under(2, 0), grant(1)));
    assert_eq!(round.grants().count(), 1);
}

#[test]
fn a_node_with_a_new_roster_is_silent_if_the_client_does_not_read_the_roster() {
    let mut round = round(3, &[refusal(Refusal::NewRoster), Outcome::Silent(Silence::Late)]);
    round.silence_the_rest(&Silence::Late);
    let new_roster = Silence::Waiting("the node has a new roster".into());
    let silent = [new_roster, Silence::Late, Silence::Late];
    assert_eq!(round.tally().votes, silent.map(NodeVote::Silent));
}

#[test]
fn a_new_roster_drops_the_votes_of_members_that_left_or_were_quarantined() {
    let mut round = Round::new(&roster(4, 1, &[(0, 1), (1, 1), (2, 1)]));
    for (node, vote) in [(0, grant(1)), (1, grant(1)), (2, held())] {
        round.take(node, by(under(1, node), vote));
    }
    round.take(3, Outcome::Silent(Silence::Late));
    let again = round.change_electors(&roster(4, 2, &[(0, 1), (1, 2), (3, 2)]));
    assert!(again.iter().eq([1, 2, 3]));
    assert_eq!((round.grants().count(), round.unanswered()), (1, 3));
}
