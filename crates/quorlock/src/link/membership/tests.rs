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
fn a_new_cluster_is_founded_first_on_the_node_with_the_lowest_run_id() {
    let membership = membership(3);
    for (node, run) in ["b", "a", "c"].into_iter().enumerate() {
        assert!(matches!(membership.admit(node), Admission::Wait(_)));
        membership.note(node, run, None).unwrap();
    }
    assert!(
        matches!(membership.admit(0), Admission::Wait(_)),
        "the node with the lowest run id must be the first to get the cluster id"
    );
    let Admission::Hello { constants, founders } = membership.admit(1) else {
        panic!("the node with the lowest run id was not admitted")
    };
    assert_eq!(founders, "a,b,c");
    membership.note(1, "a", Some(&life(&membership, "a", &constants.cluster, &founders))).unwrap();
    assert_eq!(cluster_of(membership.admit(0)), constants.cluster);
    assert_eq!(cluster_of(membership.admit(2)), constants.cluster);
}

#[test]
fn a_client_that_saw_all_nodes_blank_recognizes_a_founder_that_joins_later() {
    let (quick_client, slow_client) = (membership(3), membership(3));
    for (node, run) in ["a", "b", "c"].into_iter().enumerate() {
        slow_client.note(node, run, None).unwrap();
    }
    for (node, run) in ["a", "b"].into_iter().enumerate() {
        quick_client.note(node, run, Some(&life(&quick_client, run, "X", "a,b,c"))).unwrap();
    }
    quick_client.note(2, "c", None).unwrap();
    let Admission::Hello { constants, founders } = quick_client.admit(2) else {
        panic!("the node must join the cluster of the majority")
    };
    slow_client.note(2, "c", Some(&life(&slow_client, "c", &constants.cluster, &founders))).unwrap();
    assert!(
        matches!(slow_client.admit(2), Admission::Wait(_)),
        "the client must wait for the first founder: {:?}",
        slow_client.admit(2)
    );

    quick_client.note(2, "another", None).unwrap();
    let Admission::Hello { founders, .. } = quick_client.admit(2) else {
        panic!("the node must join the cluster of the majority")
    };
    assert_eq!(founders, "", "a later server is not a founder");
}

#[test]
fn a_blank_node_joins_a_majority_but_not_a_minority() {
    let membership = membership(3);
    membership.note(0, "a", Some(&life(&membership, "a", "X", ""))).unwrap();
    membership.note(1, "b", None).unwrap();
    assert!(matches!(membership.admit(1), Admission::Wait(_)));
    membership.note(2, "c", None).unwrap();
    assert!(matches!(membership.admit(1), Admission::Refused(why) if why.contains("nodes init")));
    membership.note(2, "c", Some(&life(&membership, "c", "X", ""))).unwrap();
    assert_eq!(cluster_of(membership.admit(1)), "X");
}

#[test]
fn nodes_that_lost_their_memory_rejoin_the_cluster_that_the_client_has_seen() {
    let membership = membership(3);
    for (node, run) in ["a", "b", "c"].into_iter().enumerate() {
        membership.note(node, run, Some(&life(&membership, run, "X", ""))).unwrap();
    }
    for (node, run) in ["a2", "b2"].into_iter().enumerate() {
        membership.note(node, run, None).unwrap();
        assert_eq!(cluster_of(membership.admit(node)), "X");
    }
}

#[test]
fn a_node_of_another_cluster_is_refused_with_both_names() {
    let membership = membership(3);
    for (node, (run, cluster)) in [("a", "X"), ("b", "X"), ("c", "Y")].into_iter().enumerate() {
        membership.note(node, run, Some(&life(&membership, run, cluster, ""))).unwrap();
    }
    assert!(matches!(membership.admit(2), Admission::Refused(why) if why.contains('X') && why.contains('Y')));
}

#[test]
fn one_server_is_not_counted_twice() {
    let membership = membership(3);
    membership.note(0, "same", None).unwrap();
    assert!(membership.note(1, "same", None).unwrap_err().contains("node 0"));
    membership.note(0, "same", None).expect("a node may report its run id again");
}

#[test]
fn other_constants_are_refused_with_both_values() {
    let membership = membership(3);
    let other = Membership::new(Quorum::new(5).unwrap(), vec![String::new(); 5], constants(5, 60_000));
    let why = membership.note(0, "a", Some(&life(&other, "a", "X", ""))).unwrap_err();
    assert!(why.contains("lists 3 nodes") && why.contains("has 5"), "{why}");
    let other = Membership::new(Quorum::new(3).unwrap(), vec![String::new(); 3], constants(3, 90_000));
    let why = membership.note(0, "a", Some(&life(&other, "a", "X", ""))).unwrap_err();
    assert!(why.contains("60s") && why.contains("90s"), "{why}");
}

#[test]
fn a_repeated_note_wakes_no_waiting_link() {
    use futures_util::FutureExt;
    let membership = membership(3);
    membership.note(0, "a", None).unwrap();
    let changed = membership.changed();
    membership.note(0, "a", None).unwrap();
    assert!(changed.now_or_never().is_none());
    for (run, life) in [("a2", None), ("a2", Some(life(&membership, "a2", "X", "")))] {
        let changed = membership.changed();
        membership.note(0, run, life.as_ref()).unwrap();
        assert!(changed.now_or_never().is_some());
    }
}
