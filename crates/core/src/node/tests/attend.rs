use core::time::Duration;

use super::*;

/// One minute in microseconds.
const MINUTE: u64 = 60_000_000;

/// A node that receives node commands.
#[derive(Default)]
struct TestNode {
    life: Option<Incarnation>,
}

impl TestNode {
    /// Returns a node in quarantine.
    fn quarantined() -> Self {
        let mut node = Self::default();
        assert!(node.send(CLOCK, &hello("run1", 1, Trust::Quarantine)));
        node
    }

    /// Sends the command, and returns whether the node accepts it.
    fn send(&mut self, micros: u64, node_command: &NodeCommand) -> bool {
        let standing = attend(&mut self.life, node_command, NodeTime::wall(micros));
        assert_eq!((&standing.life, standing.at_micros), (&self.life, micros), "the reply contains the state");
        standing.accepted
    }

    /// Checks that the node refuses the command and does not change.
    fn expect_refusal(&mut self, micros: u64, node_command: &NodeCommand) {
        let before = self.life.clone();
        assert!(!self.send(micros, node_command), "{node_command:?}");
        assert_eq!(self.life, before);
    }

    fn life(&self) -> &Incarnation {
        self.life.as_ref().unwrap()
    }

    fn floor(&self) -> Option<u64> {
        self.life().floor.map(Fence::get)
    }
}

fn hello(run: &str, fresh: u128, trust: Trust) -> NodeCommand {
    NodeCommand::Hello {
        identity: Identity::of_run(run),
        fresh: Epoch(fresh),
        constants: constants(),
        founders: "f1,f2".into(),
        trust,
    }
}

fn claim(epoch: u128, elapsed_micros: u64) -> NodeCommand {
    NodeCommand::Claim { epoch: Epoch(epoch), elapsed_micros }
}

#[test]
fn the_first_hello_puts_a_blank_node_in_quarantine() {
    let mut node = TestNode::default();
    assert!(node.send(CLOCK, &NodeCommand::Look));
    assert_eq!(node.life, None, "Look changes nothing");
    node.expect_refusal(CLOCK, &claim(1, u64::MAX));
    assert!(node.send(CLOCK, &hello("run1", 1, Trust::Quarantine)));
    assert_eq!(*node.life(), Incarnation { floor: None, founders: "f1,f2".into(), ..voting(0) });
}

#[test]
fn a_hello_with_the_same_run_keeps_the_incarnation() {
    let mut node = TestNode::quarantined();
    assert!(node.send(CLOCK, &claim(1, 5)));
    let before = node.life.clone();
    assert!(node.send(CLOCK + 1, &hello("run1", 2, Trust::Vote { floor_offset: 0 })));
    assert_eq!(node.life, before);
}

#[test]
fn a_new_run_or_a_missing_epoch_starts_another_incarnation() {
    for (run, is_erased) in [("run2", false), ("run1", true)] {
        let mut node = TestNode { life: Some(Incarnation { founders: "old".into(), ..voting(5) }) };
        if is_erased {
            node.life.as_mut().unwrap().epoch = None;
        }
        assert!(node.send(CLOCK, &hello(run, 2, Trust::Quarantine)));
        assert_eq!((node.life().epoch, node.floor(), node.life().elapsed_micros), (Some(Epoch(2)), None, 0));
        assert_eq!((&*node.life().identity.run, &*node.life().founders), (run, "old"), "the founders stay the same");
    }
}

#[test]
fn a_new_promotion_starts_another_incarnation() {
    let epoch_after_hello = |node: &mut TestNode, promotion: &str, fresh| {
        let identity = Identity { run: "run1".into(), promotion: promotion.into() };
        let NodeCommand::Hello { constants, founders, trust, .. } = hello("run1", fresh, Trust::Quarantine) else {
            return None;
        };
        node.send(CLOCK, &NodeCommand::Hello { identity, fresh: Epoch(fresh), constants, founders, trust });
        node.life().epoch
    };
    let mut node = TestNode { life: Some(voting(5)) };
    let epoch = epoch_after_hello(&mut node, "", 2);
    assert_eq!(epoch, Some(EPOCH), "the server reports no promotion");
    assert_eq!(epoch_after_hello(&mut node, "a:1", 3), Some(Epoch(3)));
    assert_eq!(epoch_after_hello(&mut node, "a:1", 4), Some(Epoch(3)));
    assert_eq!(
        epoch_after_hello(&mut node, "", 5),
        Some(Epoch(3)),
        "a first replica makes a server forget its promotion"
    );
    assert_eq!(epoch_after_hello(&mut node, "a:1", 6), Some(Epoch(3)), "the server reports the last promotion again");
    assert_eq!(epoch_after_hello(&mut node, "a:2", 7), Some(Epoch(7)), "the promotion has another offset");
    assert_eq!(
        epoch_after_hello(&mut node, "a:2+b:1", 8),
        Some(Epoch(8)),
        "the second of two servers has a new promotion"
    );
    assert_eq!(epoch_after_hello(&mut node, "b:1", 9), Some(Epoch(8)));
    assert_eq!(epoch_after_hello(&mut node, "b:1+c:1", 10), Some(Epoch(10)));
}

#[test]
fn a_hello_with_other_constants_is_refused() {
    let other_constants = [
        Constants { cluster: "c2".into(), ..constants() },
        Constants { nodes: 5, ..constants() },
        Constants { max_ttl_millis: 1, ..constants() },
        Constants { max_skew_micros: 1, ..constants() },
    ];
    for constants in other_constants {
        let trust = Trust::Vote { floor_offset: 0 };
        let (fresh, founders) = (Epoch(2), String::new());
        let node_command = NodeCommand::Hello { identity: Identity::of_run("run2"), fresh, constants, founders, trust };
        TestNode::quarantined().expect_refusal(CLOCK, &node_command);
    }
}

#[test]
fn a_trusted_node_may_vote_at_once_after_a_restart() {
    for (floor_offset, floor) in
        [(20_000_000, CLOCK + 20_000_000), (-10_000_000, CLOCK - MAX_CLOCK_SKEW), (i64::MIN, 0)]
    {
        let mut node = TestNode { life: Some(voting(0)) };
        assert!(node.send(CLOCK, &hello("run2", 2, Trust::Vote { floor_offset })));
        assert_eq!(node.floor(), Some(floor));
    }
}

#[test]
fn a_node_keeps_the_highest_claim_and_never_adds_claims() {
    let mut node = TestNode::quarantined();
    for (claimed, elapsed) in [(5, 5), (3, 5), (5, 5), (7, 7), (0, 7), (6, 7)] {
        assert!(node.send(CLOCK, &claim(1, claimed)));
        assert_eq!((node.life().elapsed_micros, node.floor()), (elapsed, None));
    }
    assert_eq!(node.life().quarantine_left(), Duration::from_micros(MINUTE + MINUTE / 10 - 7));
}

#[test]
fn a_claim_of_the_whole_quarantine_ends_the_quarantine() {
    assert_eq!(quarantine_micros(&constants()), MINUTE + MINUTE / 10);
    for elapsed in [MINUTE + MINUTE / 10, u64::MAX] {
        let mut node = TestNode::quarantined();
        assert!(node.send(CLOCK, &claim(1, MINUTE + MINUTE / 10 - 1)));
        assert_eq!(node.floor(), None);
        assert!(node.send(CLOCK + 5, &claim(1, elapsed)));
        assert_eq!((node.floor(), node.life().quarantine_left()), (Some(CLOCK + 5 - MAX_CLOCK_SKEW), Duration::ZERO));
        node.expect_refusal(CLOCK + 9_000_000, &claim(1, elapsed));
    }
}

#[test]
fn a_claim_for_another_epoch_is_refused() {
    let mut node = TestNode::quarantined();
    node.expect_refusal(CLOCK, &claim(2, 2 * MINUTE));
    assert!(node.send(CLOCK, &hello("run2", 2, Trust::Quarantine)));
    node.expect_refusal(CLOCK, &claim(1, 2 * MINUTE));
    assert_eq!(node.life().elapsed_micros, 0, "a claim for the previous epoch does not count");
    node.life.as_mut().unwrap().epoch = None;
    node.expect_refusal(CLOCK, &claim(2, 2 * MINUTE));
}

#[test]
fn only_the_first_incarnation_in_a_new_cluster_is_founding() {
    let mut node = TestNode::quarantined();
    assert!(node.life().is_founding());
    assert!(node.send(CLOCK, &hello("run2", 2, Trust::Quarantine)));
    assert!(!node.life().is_founding(), "the node restarted");
    node.life = None;
    let (identity, fresh, founders) = (Identity::of_run("run3"), Epoch(3), String::new());
    let hello = NodeCommand::Hello { identity, fresh, constants: constants(), founders, trust: Trust::Quarantine };
    assert!(node.send(CLOCK, &hello) && !node.life().is_founding(), "the node joined an existing cluster");
}

#[test]
fn a_node_may_vote_at_once_after_init() {
    for mut node in [TestNode::default(), TestNode::quarantined(), TestNode { life: Some(voting(0)) }] {
        let constants = Constants { cluster: "c2".into(), nodes: 5, ..constants() };
        let node_command =
            NodeCommand::Init { identity: Identity::of_run("run2"), fresh: Epoch(2), constants: constants.clone() };
        assert!(node.send(CLOCK, &node_command));
        let floor = Fence::new(CLOCK - MAX_CLOCK_SKEW);
        let life = Incarnation {
            identity: Identity::of_run("run2"),
            epoch: Some(Epoch(2)),
            floor: Some(floor),
            constants,
            ..voting(0)
        };
        assert_eq!(*node.life(), life);
    }
}

fn reconfigure(fresh: u128, max_ttl_millis: u64, suspend: bool, trust: Trust) -> NodeCommand {
    let constants = Constants { max_ttl_millis, nodes: 5, ..constants() };
    NodeCommand::Reconfigure { identity: Identity::of_run("run1"), fresh: Epoch(fresh), constants, trust, suspend }
}

/// Checks that the quarantine ends with a claim of this many microseconds, and not with a lower claim.
fn check_quarantine(node: &mut TestNode, epoch: u128, micros: u64) {
    assert!(node.send(CLOCK, &claim(epoch, micros - 1)) && node.floor().is_none());
    assert!(node.send(CLOCK, &claim(epoch, micros)) && node.floor().is_some());
}

#[test]
fn new_constants_start_a_quarantine_for_the_longer_max_ttl() {
    for (max_ttl_millis, quarantine) in [(120_000, MINUTE * 22 / 10), (10_000, MINUTE * 11 / 10)] {
        let mut node = TestNode { life: Some(Incarnation { founders: "f".into(), restarts: 3, ..voting(5) }) };
        assert!(node.send(CLOCK, &reconfigure(2, max_ttl_millis, false, Trust::Quarantine)));
        let life = node.life().clone();
        assert_eq!((life.constants.max_ttl_millis, life.constants.nodes), (max_ttl_millis, 5));
        assert_eq!((life.epoch, life.floor, life.restarts, &*life.founders), (Some(Epoch(2)), None, 3, "f"));
        // Neither a restart nor a repeated command shortens the quarantine.
        let hello = NodeCommand::Hello {
            identity: Identity::of_run("run2"),
            fresh: Epoch(3),
            constants: life.constants,
            founders: String::new(),
            trust: Trust::Quarantine,
        };
        assert!(node.send(CLOCK, &hello) && node.send(CLOCK, &reconfigure(4, 10_000, false, Trust::Quarantine)));
        check_quarantine(&mut node, 4, quarantine);
        assert_eq!(node.life().restarts, 4);
    }
}

#[test]
fn a_node_of_another_cluster_is_not_reconfigured() {
    let mut node = TestNode::quarantined();
    node.life.as_mut().unwrap().constants.cluster = "c2".into();
    node.expect_refusal(CLOCK, &reconfigure(2, 120_000, false, Trust::Quarantine));
    let mut blank = TestNode::default();
    assert!(blank.send(CLOCK, &reconfigure(2, 120_000, false, Trust::Quarantine)), "a blank node accepts the command");
    check_quarantine(&mut blank, 2, MINUTE * 22 / 10);
}

#[test]
fn no_claim_ends_the_quarantine_of_a_suspended_node() {
    let mut node = TestNode { life: Some(voting(5)) };
    let vote = Trust::Vote { floor_offset: 0 };
    assert!(node.send(CLOCK, &reconfigure(2, 120_000, true, vote)));
    assert!(node.send(CLOCK, &claim(2, u64::MAX)) && node.floor().is_none());
    let constants = node.life().constants.clone();
    let (identity, fresh, founders) = (Identity::of_run("run2"), Epoch(3), String::new());
    assert!(node.send(CLOCK, &NodeCommand::Hello { identity, fresh, constants, founders, trust: vote }));
    assert!(node.life().suspended && node.floor().is_none(), "a restart does not end the suspension");
    assert!(node.send(CLOCK, &reconfigure(4, 120_000, false, vote)));
    assert_eq!((node.life().suspended, node.floor()), (false, Some(CLOCK)), "the repeated command ends the suspension");
}

#[test]
fn a_node_counts_its_restarts_until_init() {
    let mut node = TestNode::quarantined();
    for (run, restarts) in [("run1", 0), ("run2", 1), ("run2", 1), ("run3", 2)] {
        assert!(node.send(CLOCK, &hello(run, 2, Trust::Quarantine)));
        assert_eq!(node.life().restarts, restarts);
    }
    assert!(node.send(
        CLOCK,
        &NodeCommand::Init { identity: Identity::of_run("run4"), fresh: Epoch(9), constants: constants() }
    ));
    assert_eq!(node.life().restarts, 0);
}
