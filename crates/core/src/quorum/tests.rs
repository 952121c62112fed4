use super::*;

const A: MemberId = MemberId(0xa);
const B: MemberId = MemberId(0xb);

fn elector(member: MemberId, generation: u64) -> Elector {
    Elector { member, generation }
}

#[test]
fn only_votes_of_members_count() {
    let electors = Electors::new(3, 1, 5, [(A, 1)].into());
    assert!(electors.counts(elector(A, 5)) && !electors.counts(elector(B, 5)));
}

#[test]
fn a_vote_counts_from_the_last_quarantine_of_its_member_up_to_the_known_generation() {
    let electors = Electors::new(3, 1, 5, [(A, 3)].into());
    assert_eq!([2, 3, 5, 6].map(|generation| electors.counts(elector(A, generation))), [false, true, true, false]);
    assert_eq!([5, 6].map(|generation| electors.is_superseded_by(elector(B, generation))), [false, true]);
}

#[test]
fn a_list_with_fewer_nodes_than_a_majority_has_no_majority() {
    assert!(!Electors::new(1, 2, 1, [(A, 1), (B, 1)].into()).has_majority_without(0));
    assert!(
        Electors::new(1, 1, 1, [(A, 1), (B, 1)].into()).has_majority_despite(1),
        "the other member may have granted"
    );
    let four_listed = Electors::new(4, 2, 1, [(A, 1), (B, 1)].into());
    assert!(four_listed.has_majority_without(2) && !four_listed.has_majority_without(3));
}

#[test]
fn every_node_of_a_list_may_be_a_member() {
    let electors = Electors::all(Quorum::new(3).unwrap());
    assert_eq!([0, 2, 3].map(|node| electors.counts(Elector::at(node))), [true, true, false]);
    assert_eq!((electors.nodes(), electors.majority()), (3, 2));
}
