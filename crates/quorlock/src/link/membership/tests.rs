use super::*;
use quorlock_core::node::NodeCommand;
use quorlock_core::node::{Epoch, Identity, NodeTime, Standing, Trust, attend};

fn membership(nodes: usize) -> Membership {
    let titles = (0..nodes).map(|node| format!("node {node}")).collect();
    Membership::new(Quorum::new(nodes).unwrap(), titles, constants(nodes, 60_000))
}

fn constants(nodes: usize, max_ttl_millis: u64) -> Constants {
    Constants { cluster: String::new(), nodes, max_ttl_millis, max_skew_micros: 10_000_000 }
}

fn life(membership: &Membership, run: &str, cluster: &str, founders: &str) -> Incarnation {
    let hello = NodeCommand::Hello {
        identity: Identity::of_run(run),
        fresh: Epoch(1),
        constants: membership.constants(cluster.into()),
        founders: founders.into(),
        trust: Trust::Quarantine,
    };
    let Standing { life, .. } = attend(&mut None, &hello, NodeTime::wall(1));
    life.unwrap()
}

fn cluster_of(admission: Admission) -> String {
    match admission {
        Admission::Hello { constants, .. } => constants.cluster,
        other => panic!("not admitted: {other:?}"),
    }
}

#[test]
fn a_new_cluster_is_founded_at_the_lowest_run_first() {
    let m = membership(3);
    for (node, run) in ["b", "a", "c"].into_iter().enumerate() {
        assert!(matches!(m.admit(node), Admission::Wait(_)));
        m.note(node, run, None).unwrap();
    }
    assert!(matches!(m.admit(0), Admission::Wait(_)), "only the lowest run may be named first");
    let Admission::Hello { constants, founders } = m.admit(1) else { panic!("the lowest run founds") };
    assert_eq!(founders, "a,b,c");
    m.note(1, "a", Some(&life(&m, "a", &constants.cluster, &founders))).unwrap();
    assert_eq!(cluster_of(m.admit(0)), constants.cluster);
    assert_eq!(cluster_of(m.admit(2)), constants.cluster);
}

#[test]
fn a_founder_that_joins_the_majority_is_told_from_a_stranger_by_those_who_saw_all_nodes_blank() {
    let (quick, slow) = (membership(3), membership(3));
    for (node, run) in ["a", "b", "c"].into_iter().enumerate() {
        slow.note(node, run, None).unwrap();
    }
    for (node, run) in ["a", "b"].into_iter().enumerate() {
        quick.note(node, run, Some(&life(&quick, run, "X", "a,b,c"))).unwrap();
    }
    quick.note(2, "c", None).unwrap();
    let Admission::Hello { constants, founders } = quick.admit(2) else { panic!("a majority carries the name") };
    slow.note(2, "c", Some(&life(&slow, "c", &constants.cluster, &founders))).unwrap();
    assert!(matches!(slow.admit(2), Admission::Wait(_)), "it looks again at the first: {:?}", slow.admit(2));

    quick.note(2, "another", None).unwrap();
    let Admission::Hello { founders, .. } = quick.admit(2) else { panic!("a majority carries the name") };
    assert_eq!(founders, "", "a server that came later founded nothing");
}

#[test]
fn a_blank_node_joins_the_majority_and_no_minority() {
    let m = membership(3);
    m.note(0, "a", Some(&life(&m, "a", "X", ""))).unwrap();
    m.note(1, "b", None).unwrap();
    assert!(matches!(m.admit(1), Admission::Wait(_)));
    m.note(2, "c", None).unwrap();
    assert!(matches!(m.admit(1), Admission::Refused(why) if why.contains("nodes init")));
    m.note(2, "c", Some(&life(&m, "c", "X", ""))).unwrap();
    assert_eq!(cluster_of(m.admit(1)), "X");
}

#[test]
fn a_client_that_knew_the_majority_takes_back_nodes_that_lost_their_memory() {
    let m = membership(3);
    for (node, run) in ["a", "b", "c"].into_iter().enumerate() {
        m.note(node, run, Some(&life(&m, run, "X", ""))).unwrap();
    }
    for (node, run) in ["a2", "b2"].into_iter().enumerate() {
        m.note(node, run, None).unwrap();
        assert_eq!(cluster_of(m.admit(node)), "X");
    }
}

#[test]
fn a_node_of_another_cluster_is_refused_with_both_names() {
    let m = membership(3);
    for (node, (run, cluster)) in [("a", "X"), ("b", "X"), ("c", "Y")].into_iter().enumerate() {
        m.note(node, run, Some(&life(&m, run, cluster, ""))).unwrap();
    }
    assert!(matches!(m.admit(2), Admission::Refused(why) if why.contains('X') && why.contains('Y')));
}

#[test]
fn one_server_is_not_counted_twice() {
    let m = membership(3);
    m.note(0, "same", None).unwrap();
    assert!(m.note(1, "same", None).unwrap_err().contains("node 0"));
    m.note(0, "same", None).expect("its own run again is fine");
}

#[test]
fn other_constants_are_refused_with_both_values() {
    let m = membership(3);
    let other = Membership::new(Quorum::new(5).unwrap(), vec![String::new(); 5], constants(5, 60_000));
    let why = m.note(0, "a", Some(&life(&other, "a", "X", ""))).unwrap_err();
    assert!(why.contains("nodes of 3") && why.contains("with 5"), "{why}");
    let other = Membership::new(Quorum::new(3).unwrap(), vec![String::new(); 3], constants(3, 90_000));
    let why = m.note(0, "a", Some(&life(&other, "a", "X", ""))).unwrap_err();
    assert!(why.contains("60s") && why.contains("90s"), "{why}");
}

#[test]
fn what_was_known_before_wakes_nobody() {
    use futures_util::FutureExt;
    let m = membership(3);
    m.note(0, "a", None).unwrap();
    let changed = m.changed();
    m.note(0, "a", None).unwrap();
    assert!(changed.now_or_never().is_none());
    for (run, life) in [("a2", None), ("a2", Some(life(&m, "a2", "X", "")))] {
        let changed = m.changed();
        m.note(0, run, life.as_ref()).unwrap();
        assert!(changed.now_or_never().is_some());
    }
}
