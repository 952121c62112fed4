use core::time::Duration;

use super::*;

const MINUTE: u64 = 60_000_000;

/// A node that a client talks to about itself.
#[derive(Default)]
struct Bench {
    life: Option<Incarnation>,
}

impl Bench {
    /// A node in quarantine.
    fn quarantined() -> Self {
        let mut bench = Self::default();
        assert!(bench.send(CLOCK, &hello("run1", 1, Trust::Quarantine)));
        bench
    }

    fn send(&mut self, micros: u64, node_command: &NodeCommand) -> bool {
        let standing = attend(&mut self.life, node_command, NodeTime::wall(micros));
        assert_eq!((&standing.life, standing.at_micros), (&self.life, micros), "it tells how it stands");
        standing.accepted
    }

    /// Refuses, and nothing changes.
    fn refuses(&mut self, micros: u64, node_command: &NodeCommand) {
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
fn a_blank_node_is_taken_in() {
    let mut bench = Bench::default();
    assert!(bench.send(CLOCK, &NodeCommand::Look));
    assert_eq!(bench.life, None, "looking changes nothing");
    bench.refuses(CLOCK, &claim(1, u64::MAX));
    assert!(bench.send(CLOCK, &hello("run1", 1, Trust::Quarantine)));
    assert_eq!(*bench.life(), Incarnation { floor: None, founders: "f1,f2".into(), ..voting(0) });
}

#[test]
fn the_same_run_keeps_its_life() {
    let mut bench = Bench::quarantined();
    assert!(bench.send(CLOCK, &claim(1, 5)));
    let before = bench.life.clone();
    assert!(bench.send(CLOCK + 1, &hello("run1", 2, Trust::Vote { floor_offset: 0 })));
    assert_eq!(bench.life, before);
}

#[test]
fn a_new_run_or_a_wiped_epoch_starts_another_life() {
    for (run, wiped) in [("run2", false), ("run1", true)] {
        let mut bench = Bench { life: Some(Incarnation { founders: "old".into(), ..voting(5) }) };
        if wiped {
            bench.life.as_mut().unwrap().epoch = None;
        }
        assert!(bench.send(CLOCK, &hello(run, 2, Trust::Quarantine)));
        assert_eq!((bench.life().epoch, bench.floor(), bench.life().elapsed_micros), (Some(Epoch(2)), None, 0));
        assert_eq!(
            (&*bench.life().identity.run, &*bench.life().founders),
            (run, "old"),
            "the founding is not rewritten"
        );
    }
}

#[test]
fn a_promotion_that_is_not_the_last_one_seen_starts_another_life() {
    let meet = |bench: &mut Bench, promotion: &str, fresh| {
        let identity = Identity { run: "run1".into(), promotion: promotion.into() };
        let NodeCommand::Hello { constants, founders, trust, .. } = hello("run1", fresh, Trust::Quarantine) else {
            return None;
        };
        bench.send(CLOCK, &NodeCommand::Hello { identity, fresh: Epoch(fresh), constants, founders, trust });
        bench.life().epoch
    };
    let mut bench = Bench { life: Some(voting(5)) };
    let first = meet(&mut bench, "", 2);
    assert_eq!(first, Some(EPOCH), "no promotion is no news");
    assert_eq!(meet(&mut bench, "a:1", 3), Some(Epoch(3)));
    assert_eq!(meet(&mut bench, "a:1", 4), Some(Epoch(3)));
    assert_eq!(meet(&mut bench, "", 5), Some(Epoch(3)), "a first replica makes a server forget its promotion");
    assert_eq!(meet(&mut bench, "a:1", 6), Some(Epoch(3)), "it is still the last one seen");
    assert_eq!(meet(&mut bench, "a:2", 7), Some(Epoch(7)), "the same id at another offset");
    assert_eq!(meet(&mut bench, "a:2+b:1", 8), Some(Epoch(8)), "one of several servers");
    assert_eq!(meet(&mut bench, "b:1", 9), Some(Epoch(8)));
    assert_eq!(meet(&mut bench, "b:1+c:1", 10), Some(Epoch(10)));
}

#[test]
fn other_constants_are_refused() {
    let others = [
        Constants { cluster: "c2".into(), ..constants() },
        Constants { nodes: 5, ..constants() },
        Constants { max_ttl_millis: 1, ..constants() },
        Constants { max_skew_micros: 1, ..constants() },
    ];
    for constants in others {
        let trust = Trust::Vote { floor_offset: 0 };
        let (fresh, founders) = (Epoch(2), String::new());
        let node_command = NodeCommand::Hello { identity: Identity::of_run("run2"), fresh, constants, founders, trust };
        Bench::quarantined().refuses(CLOCK, &node_command);
    }
}

#[test]
fn a_trusted_restart_votes_at_once_above_its_floor() {
    for (floor_offset, floor) in
        [(20_000_000, CLOCK + 20_000_000), (-10_000_000, CLOCK - MAX_CLOCK_SKEW), (i64::MIN, 0)]
    {
        let mut bench = Bench { life: Some(voting(0)) };
        assert!(bench.send(CLOCK, &hello("run2", 2, Trust::Vote { floor_offset })));
        assert_eq!(bench.floor(), Some(floor));
    }
}

#[test]
fn the_highest_claim_counts_and_claims_are_never_added() {
    let mut bench = Bench::quarantined();
    for (claimed, elapsed) in [(5, 5), (3, 5), (5, 5), (7, 7), (0, 7), (6, 7)] {
        assert!(bench.send(CLOCK, &claim(1, claimed)));
        assert_eq!((bench.life().elapsed_micros, bench.floor()), (elapsed, None));
    }
    assert_eq!(bench.life().quarantine_left(), Duration::from_micros(MINUTE + MINUTE / 10 - 7));
}

#[test]
fn the_claim_of_the_whole_quarantine_ends_it() {
    assert_eq!(quarantine_micros(&constants()), MINUTE + MINUTE / 10);
    for elapsed in [MINUTE + MINUTE / 10, u64::MAX] {
        let mut bench = Bench::quarantined();
        assert!(bench.send(CLOCK, &claim(1, MINUTE + MINUTE / 10 - 1)));
        assert_eq!(bench.floor(), None);
        assert!(bench.send(CLOCK + 5, &claim(1, elapsed)));
        assert_eq!((bench.floor(), bench.life().quarantine_left()), (Some(CLOCK + 5 - MAX_CLOCK_SKEW), Duration::ZERO));
        bench.refuses(CLOCK + 9_000_000, &claim(1, elapsed));
    }
}

#[test]
fn a_claim_about_another_epoch_does_not_count() {
    let mut bench = Bench::quarantined();
    bench.refuses(CLOCK, &claim(2, 2 * MINUTE));
    assert!(bench.send(CLOCK, &hello("run2", 2, Trust::Quarantine)));
    bench.refuses(CLOCK, &claim(1, 2 * MINUTE));
    assert_eq!(bench.life().elapsed_micros, 0, "what has passed since the life before says nothing about this one");
    bench.life.as_mut().unwrap().epoch = None;
    bench.refuses(CLOCK, &claim(2, 2 * MINUTE));
}

#[test]
fn only_the_first_life_of_a_founded_cluster_is_its_founding() {
    let mut bench = Bench::quarantined();
    assert!(bench.life().is_founding());
    assert!(bench.send(CLOCK, &hello("run2", 2, Trust::Quarantine)));
    assert!(!bench.life().is_founding(), "it restarted");
    bench.life = None;
    let (identity, fresh, founders) = (Identity::of_run("run3"), Epoch(3), String::new());
    let joins = NodeCommand::Hello { identity, fresh, constants: constants(), founders, trust: Trust::Quarantine };
    assert!(bench.send(CLOCK, &joins) && !bench.life().is_founding(), "it joined a cluster that others founded");
}

#[test]
fn an_operators_init_may_vote_at_once() {
    for mut bench in [Bench::default(), Bench::quarantined(), Bench { life: Some(voting(0)) }] {
        let constants = Constants { cluster: "c2".into(), nodes: 5, ..constants() };
        let node_command =
            NodeCommand::Init { identity: Identity::of_run("run2"), fresh: Epoch(2), constants: constants.clone() };
        assert!(bench.send(CLOCK, &node_command));
        let floor = Fence::new(CLOCK - MAX_CLOCK_SKEW);
        let life = Incarnation {
            identity: Identity::of_run("run2"),
            epoch: Some(Epoch(2)),
            floor: Some(floor),
            constants,
            ..voting(0)
        };
        assert_eq!(*bench.life(), life);
    }
}

fn reconfigure(fresh: u128, max_ttl_millis: u64, suspend: bool, trust: Trust) -> NodeCommand {
    let constants = Constants { max_ttl_millis, nodes: 5, ..constants() };
    NodeCommand::Reconfigure { identity: Identity::of_run("run1"), fresh: Epoch(fresh), constants, trust, suspend }
}

/// Its quarantine ends after this time, and no sooner.
fn votes_after(bench: &mut Bench, epoch: u128, micros: u64) {
    assert!(bench.send(CLOCK, &claim(epoch, micros - 1)) && bench.floor().is_none());
    assert!(bench.send(CLOCK, &claim(epoch, micros)) && bench.floor().is_some());
}

#[test]
fn new_constants_begin_a_quarantine_of_the_longer_max_ttl() {
    for (max_ttl_millis, quarantine) in [(120_000, MINUTE * 22 / 10), (10_000, MINUTE * 11 / 10)] {
        let mut bench = Bench { life: Some(Incarnation { founders: "f".into(), restarts: 3, ..voting(5) }) };
        assert!(bench.send(CLOCK, &reconfigure(2, max_ttl_millis, false, Trust::Quarantine)));
        let life = bench.life().clone();
        assert_eq!((life.constants.max_ttl_millis, life.constants.nodes), (max_ttl_millis, 5));
        assert_eq!((life.epoch, life.floor, life.restarts, &*life.founders), (Some(Epoch(2)), None, 3, "f"));
        // A restart or a repetition does not shorten it.
        let hello = NodeCommand::Hello {
            identity: Identity::of_run("run2"),
            fresh: Epoch(3),
            constants: life.constants,
            founders: String::new(),
            trust: Trust::Quarantine,
        };
        assert!(bench.send(CLOCK, &hello) && bench.send(CLOCK, &reconfigure(4, 10_000, false, Trust::Quarantine)));
        votes_after(&mut bench, 4, quarantine);
        assert_eq!(bench.life().restarts, 4);
    }
}

#[test]
fn a_node_of_another_cluster_is_not_reconfigured() {
    let mut bench = Bench::quarantined();
    bench.life.as_mut().unwrap().constants.cluster = "c2".into();
    bench.refuses(CLOCK, &reconfigure(2, 120_000, false, Trust::Quarantine));
    let mut blank = Bench::default();
    assert!(blank.send(CLOCK, &reconfigure(2, 120_000, false, Trust::Quarantine)), "a blank one is taken in");
    votes_after(&mut blank, 2, MINUTE * 22 / 10);
}

#[test]
fn no_claim_ends_the_quarantine_of_a_suspended_node() {
    let mut bench = Bench { life: Some(voting(5)) };
    let vote = Trust::Vote { floor_offset: 0 };
    assert!(bench.send(CLOCK, &reconfigure(2, 120_000, true, vote)));
    assert!(bench.send(CLOCK, &claim(2, u64::MAX)) && bench.floor().is_none());
    let constants = bench.life().constants.clone();
    let (identity, fresh, founders) = (Identity::of_run("run2"), Epoch(3), String::new());
    assert!(bench.send(CLOCK, &NodeCommand::Hello { identity, fresh, constants, founders, trust: vote }));
    assert!(bench.life().suspended && bench.floor().is_none(), "a restart does not finish what an operator began");
    assert!(bench.send(CLOCK, &reconfigure(4, 120_000, false, vote)));
    assert_eq!((bench.life().suspended, bench.floor()), (false, Some(CLOCK)), "the second word does");
}

#[test]
fn restarts_are_counted_until_the_cluster_is_declared_anew() {
    let mut bench = Bench::quarantined();
    for (run, restarts) in [("run1", 0), ("run2", 1), ("run2", 1), ("run3", 2)] {
        assert!(bench.send(CLOCK, &hello(run, 2, Trust::Quarantine)));
        assert_eq!(bench.life().restarts, restarts);
    }
    assert!(bench.send(
        CLOCK,
        &NodeCommand::Init { identity: Identity::of_run("run4"), fresh: Epoch(9), constants: constants() }
    ));
    assert_eq!(bench.life().restarts, 0);
}
