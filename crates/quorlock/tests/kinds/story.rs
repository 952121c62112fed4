//! One name, and what happens to it.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::sample::Index;
use quorlock::{AcquireError, Fence, FenceError, Lease, Owner, Reentrant, RwLock};

use crate::bench::{CLIENTS, Table};
use crate::model::{Ask, Model, Outcome, PARTIES};

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Somebody asks once.
    Try { client: usize, ask: Ask },
    /// Somebody begins to ask and turns away.
    GiveUp { client: usize, ask: Ask },
    /// Somebody who holds it gives it back.
    Release(Index),
    /// Somebody who holds it drops it.
    Drop(Index),
    /// Somebody who holds it renews it.
    Extend(Index),
}

pub(crate) fn steps(ask: BoxedStrategy<Ask>) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..CLIENTS, ask.clone()).prop_map(|(client, ask)| Step::Try { client, ask }),
        1 => (0..CLIENTS, ask).prop_map(|(client, ask)| Step::GiveUp { client, ask }),
        2 => any::<Index>().prop_map(Step::Release),
        1 => any::<Index>().prop_map(Step::Drop),
        1 => any::<Index>().prop_map(Step::Extend),
    ]
}

pub(crate) async fn run(table: &Table<'_>, steps: Vec<Step>) {
    let name = table.name("one");
    let parties = std::array::from_fn(|_| Owner::new());
    let mut play = Play { table, name, parties, model: Model::default(), leases: Vec::new(), highest: None };
    for step in steps {
        let Some(client) = play.step(&step).await else { continue };
        for report in table.look(client, &play.name).await {
            assert!(play.model.fits(&report), "after {step:?} of {:?}: {report:?}", play.model);
        }
        for (_, lease) in &play.leases {
            lease.ensure(Duration::ZERO).unwrap();
        }
    }
}

struct Play<'a> {
    table: &'a Table<'a>,
    name: String,
    parties: [Owner; PARTIES],
    model: Model,
    /// Each hold's client and lease, in the order of the model's.
    leases: Vec<(usize, Lease)>,
    /// The highest fence so far.
    highest: Option<Fence>,
}

impl Play<'_> {
    /// Which client has done something, if any had to.
    async fn step(&mut self, step: &Step) -> Option<usize> {
        match step {
            Step::Try { client, ask } => {
                let expected = self.model.outcome(*ask);
                let got = self.ask_once(*client, *ask).await;
                assert_eq!(got.as_ref().map_or_else(|outcome| *outcome, |_| Outcome::Granted), expected, "{step:?}");
                if let Ok(lease) = got {
                    self.hold(*client, *ask, lease);
                }
                Some(*client)
            }
            Step::GiveUp { client, ask } => {
                self.turn_away(*client, *ask);
                Some(*client)
            }
            Step::Release(which) => {
                let (client, lease) = self.part(*which)?;
                lease.release().await.unwrap();
                Some(client)
            }
            Step::Drop(which) => self.part(*which).map(|(client, _)| client),
            Step::Extend(which) => {
                let (client, lease) = self.leases.get(self.position(*which)?)?;
                lease.extend().await.unwrap();
                Some(*client)
            }
        }
    }

    async fn ask_once(&self, client: usize, ask: Ask) -> Result<Lease, Outcome> {
        let name = &self.name;
        let asked = match ask {
            Ask::Exclusive => self.table.client(client).lock(name).try_acquire().await,
            Ask::Plain => self.table.client(client).lock(name).plain().try_acquire().await,
            Ask::Enter(owner) => self.reentrant(client, owner).try_acquire().await,
            Ask::Read(party) => self.rw(client, party).try_read().await,
            Ask::Write(party) => self.rw(client, party).try_write().await,
            Ask::Slot(permits) => self.table.client(client).semaphore(name, permits).try_acquire().await,
        };
        match (asked, ask) {
            (Ok(lease), _) => lease.ok_or(Outcome::Refused),
            (Err(AcquireError::Upgrade { .. }), Ask::Write(_) | Ask::Enter(_)) => Err(Outcome::Upgrade),
            (Err(AcquireError::Permits { asked, stored, .. }), Ask::Slot(permits)) if asked == permits => {
                Err(Outcome::Permits(stored))
            }
            (Err(error), _) => panic!("{ask:?}: {error}"),
        }
    }

    /// Begins to wait for it, and drops the future after its first step.
    fn turn_away(&self, client: usize, ask: Ask) {
        let name = &self.name;
        let _ = match ask {
            Ask::Exclusive => self.table.client(client).lock(name).acquire().now_or_never(),
            Ask::Plain => self.table.client(client).lock(name).plain().acquire().now_or_never(),
            Ask::Enter(owner) => self.reentrant(client, owner).acquire().now_or_never(),
            Ask::Read(party) => self.rw(client, party).read().now_or_never(),
            Ask::Write(party) => self.rw(client, party).write().now_or_never(),
            Ask::Slot(permits) => self.table.client(client).semaphore(name, permits).acquire().now_or_never(),
        };
    }

    fn reentrant(&self, client: usize, owner: usize) -> Reentrant {
        self.table.client(client).reentrant(&self.name).owned_by(&self.parties[owner])
    }

    fn rw(&self, client: usize, party: usize) -> RwLock {
        self.table.client(client).rw(&self.name).owned_by(&self.parties[party])
    }

    fn hold(&mut self, client: usize, ask: Ask, lease: Lease) {
        let reads_already = self.model.holds.iter().position(|held| matches!(ask, Ask::Read(_)) && *held == ask);
        match (lease.fence(), reads_already) {
            (Err(FenceError::Plain), _) => assert_eq!(ask, Ask::Plain),
            (fence, Some(at)) => assert_eq!(self.leases[at].1.fence(), fence, "one fence for all reads of an owner"),
            (fence, None) if self.model.is_reentry(ask) => {
                assert!(self.leases.iter().all(|(_, other)| other.fence() == fence), "one fence for all entries");
            }
            (fence, None) => assert!(self.highest.replace(fence.unwrap()) < fence.ok(), "fences grow"),
        }
        match (ask, lease.slot()) {
            (Ask::Slot(permits), Some(slot)) => {
                assert!(slot < permits, "slot {slot} of {permits}");
                assert!(self.leases.iter().all(|(_, other)| other.slot() != Some(slot)), "two have slot {slot}");
            }
            (_, slot) => assert_eq!(slot, None),
        }
        self.model.holds.push(ask);
        self.leases.push((client, lease));
    }

    fn part(&mut self, which: Index) -> Option<(usize, Lease)> {
        let at = self.position(which)?;
        self.model.holds.remove(at);
        Some(self.leases.remove(at))
    }

    fn position(&self, which: Index) -> Option<usize> {
        (!self.leases.is_empty()).then(|| which.index(self.leases.len()))
    }
}
