//! The users of the library: tasks that acquire, work, and release or cancel.

use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use quorlock::peek::Peek;
use quorlock::sim::sleep;
use quorlock::{
    AcquireError, Break, Client, DetachedLease, FenceError, Kind, Lease, LeaseError, Leases, Lock, Owner, Renewals,
};

use crate::ledger::{Breach, Grant, Hold};
use crate::plan::{Cancel, Ending, Job, Patience, Plan, Want};
use crate::world::World;

/// The clients that have connected so far.
pub(crate) type Clients = Rc<std::cell::RefCell<Vec<Option<Client>>>>;

/// One task of one client.
pub(crate) struct User {
    pub(crate) world: Rc<World>,
    pub(crate) plan: Rc<Plan>,
    pub(crate) client: usize,
    pub(crate) library: Client,
    pub(crate) clients: Clients,
}

type Asking = Pin<Box<dyn Future<Output = Result<Vec<(Lease, Hold)>, AcquireError>>>>;

impl User {
    /// Does its jobs in order.
    pub(crate) async fn live(self, jobs: Vec<Job>) {
        if let Some(rush) = self.plan.rush {
            sleep(self.until(rush)).await;
        }
        for (at, job) in jobs.iter().enumerate() {
            if at > 0 || self.plan.rush.is_none() {
                sleep(job.rest).await;
            }
            self.run(job).await;
        }
        self.world.state.borrow_mut().clients[self.client].busy -= 1;
    }

    async fn run(&self, job: &Job) {
        if let Want::Break { now } = job.want {
            return self.break_lock(job.name, now).await;
        }
        if let Want::Retire { after } = job.want {
            sleep(after).await;
            return self.retire(job.name).await;
        }
        let asked = self.world.now();
        self.say(|| format!("wants {}: {:?}, {:?}", name(job.name), job.want, job.patience));
        let (asking, owner) = self.ask(job);
        let leases = match until_cancelled(job.cancel, asking).await {
            Some(Ok(leases)) => leases,
            Some(Err(error)) => {
                if let AcquireError::Retired { .. } = error {
                    self.refused_as_retired(job);
                }
                return self.say(|| format!("did not get {}: {error}", name(job.name)));
            }
            None => return self.say(|| format!("has cancelled {}", name(job.name))),
        };
        let mut held = Vec::new();
        for (lease, hold) in leases {
            let id = self.granted(&lease, hold, asked);
            held.push((lease, id));
        }
        self.work(job, &held).await;
        if let (Want::Enter { again: true }, Some(owner)) = (job.want, owner) {
            self.enter_again(job, owner).await;
        }
        for (lease, id) in held {
            self.end(job, lease, id).await;
        }
    }

    /// The future of an acquire, and its owner.
    fn ask(&self, job: &Job) -> (Asking, Option<Owner>) {
        let (client, patience, lock) = (&self.library, job.patience, name(job.name));
        let renewals = if job.renews { Renewals::default() } else { Renewals::Off };
        let alone = |lease: Lease| vec![(lease, Hold::Alone)];
        match job.want {
            Want::Plain => (asking(client.lock(lock).plain().renewals(renewals), patience, alone), None),
            Want::Alone | Want::Break { .. } | Want::Retire { .. } => {
                (asking(client.lock(lock).renewals(renewals), patience, alone), None)
            }
            Want::Read => {
                let reader = |lease: Lease| vec![(lease, Hold::Reader)];
                (asking(client.rw(lock).read().renewals(renewals), patience, reader), None)
            }
            Want::Write => (asking(client.rw(lock).write().renewals(renewals), patience, alone), None),
            Want::Enter { .. } | Want::Owned => {
                let lock = client.reentrant(lock).renewals(renewals);
                let lock = if job.want == Want::Owned { lock.owned_by(self.retiree()) } else { lock };
                let owner = lock.owner();
                let hold = hold_of(owner);
                (asking(lock, patience, move |lease: Lease| vec![(lease, hold)]), Some(owner))
            }
            Want::Slot(permits) => {
                let slot = |lease: Lease| {
                    let hold = lease.slot().map_or(Hold::Alone, Hold::Slot);
                    vec![(lease, hold)]
                };
                (asking(client.semaphore(lock, permits).renewals(renewals), patience, slot), None)
            }
            Want::All => {
                let all = client.all((0..self.plan.names.len()).map(name)).renewals(renewals);
                let each = |leases: Leases| leases.into_vec().into_iter().map(|lease| (lease, Hold::Alone)).collect();
                (asking(all, patience, each), None)
            }
        }
    }

    fn granted(&self, lease: &Lease, hold: Hold, asked: u64) -> Option<usize> {
        let name = lease.name().as_str().to_owned();
        // A lease that was lost before its caller saw it belongs to nobody.
        if lease.ensure(Duration::from_nanos(1)).is_err() {
            self.say(|| format!("got {name}, already lost"));
            return None;
        }
        let (client, fence, peek) = (self.client, lease.fence().ok(), Peek::of(lease));
        self.say(|| {
            let with = fence.map_or("without a fence".into(), |fence| format!("with fence {fence}"));
            format!(
                "holds {name}, {with}, for {:.1?}",
                peek.validity(self.moment(client), self.world.state.borrow().wall(client))
            )
        });
        let grant = Grant { name, hold, client, asked, fence, peek };
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        Some(state.ledger.grant(grant, now))
    }

    /// Works in steps; each step writes to a store that checks fences.
    async fn work(&self, job: &Job, held: &[(Lease, Option<usize>)]) {
        let step = job.works / (job.steps * 2);
        for round in 0..job.steps {
            sleep(step).await;
            if job.extends && round == 0 {
                for (lease, _) in held {
                    // The result shows in the lease.
                    let _ = lease.extend().await;
                }
            }
            for (lease, id) in held {
                let (fence, Some(id)) = (lease.fence(), *id) else { continue };
                match fence {
                    // The step takes its time after the check, as real work does.
                    Ok(fence) => {
                        sleep(step).await;
                        let is_taken = self.world.state.borrow_mut().ledger.write(id, fence);
                        if !is_taken {
                            self.say(|| format!("comes too late with fence {fence}"));
                        }
                    }
                    Err(FenceError::Plain) => {}
                    Err(error) => return self.say(|| format!("has lost {}: {error}", lease.name())),
                }
            }
        }
    }

    async fn enter_again(&self, job: &Job, owner: Owner) {
        let asked = self.world.now();
        let lock = self.library.reentrant(name(job.name)).owned_by(owner);
        if let Ok(lease) = lock.acquire_within(self.plan.ttl).await {
            let id = self.granted(&lease, hold_of(owner), asked);
            self.work(job, &[(lease, id)]).await;
        }
    }

    async fn end(&self, job: &Job, lease: Lease, id: Option<usize>) {
        let name = lease.name().clone();
        match (job.ending, id) {
            (Ending::HandOver { client, extensions }, Some(id)) => self.detach(lease, id, client, extensions),
            (Ending::Release | Ending::HandOver { .. }, _) => {
                self.say(|| format!("releases {name}"));
                match until_cancelled(job.cancel, lease.release()).await {
                    Some(Ok(())) | None => {}
                    Some(Err(error)) => self.say(|| format!("release failed: {error}")),
                }
            }
            (Ending::Drop, _) => self.say(|| format!("drops {name}")),
            (Ending::UntilLost, _) => {
                let (lost, late) = (Box::pin(lease.lost()), Box::pin(sleep(self.plan.ttl * 2)));
                if let Either::Left((why, _)) = select(lost, late).await {
                    self.say(|| format!("has lost {name}: {why}"));
                }
            }
        }
    }

    /// Detaches the lease and passes it to another connected client, which extends and releases it.
    fn detach(&self, lease: Lease, id: usize, to: usize, extensions: u32) {
        let until = self.moment(self.client) + lease.validity().as_nanos() as u64;
        let until = (until, Peek::of(&lease).wall_until());
        let Ok(detached) = lease.detach() else { return };
        self.world.state.borrow_mut().ledger.hand(id, detached.id(), self.client, until);
        let other = self.clients.borrow().get(to).cloned().flatten();
        let (client, library) = other.map_or_else(|| (self.client, self.library.clone()), |library| (to, library));
        self.say(|| format!("hands {} over to {}", detached.name(), crate::world::client_name(client)));
        let heir = Receiver { world: Rc::clone(&self.world), client, library, detached, id, pause: self.plan.ttl / 3 };
        self.world.state.borrow_mut().clients[client].busy += 1;
        self.world.begin(client, heir.live(extensions));
    }

    async fn break_lock(&self, index: usize, now: bool) {
        let Ok(seen) = self.library.inspect(name(index)).await else { return };
        let Some(target) = seen.target() else { return };
        self.say(|| format!("breaks {}: {target}", name(index)));
        let what = Break::new(target, "simulated");
        // The holder finds out.
        let _ = self.library.break_lock(name(index), if now { what.now() } else { what }).await;
    }

    /// The owner that is retired in this run, the same in all of its processes.
    fn retiree(&self) -> Owner {
        Owner::from_bits(u128::from(self.plan.seed) << 64)
    }

    /// Retires the owner from a name, until a majority has acknowledged it.
    async fn retire(&self, index: usize) {
        let (owner, keep_out) = (self.retiree(), self.plan.max_ttl);
        loop {
            self.say(|| format!("retires the owner from {}", name(index)));
            let sent = self.world.now();
            // A node's clock may be fast, so that its tombstone ends sooner.
            let until = sent + keep_out.as_nanos() as u64 * 4 / 5;
            self.world.state.borrow_mut().ledger.retire(name(index), hold_of(owner), until);
            match self.library.retire(name(index), owner, keep_out).await {
                Ok(_) => break,
                Err(LeaseError::NoQuorum { .. }) => sleep(self.plan.ttl).await,
                Err(error) => return self.say(|| format!("cannot retire the owner: {error}")),
            }
        }
        self.say(|| format!("has retired the owner from {}", name(index)));
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        state.ledger.retired(now, now + self.plan.ttl.as_nanos() as u64);
    }

    /// An acquire was refused as retired: it must be that of the owner, for the name that it was retired from.
    fn refused_as_retired(&self, job: &Job) {
        let is_retirees = job.want == Want::Owned;
        let mut state = self.world.state.borrow_mut();
        if !is_retirees || !state.ledger.is_retired(&name(job.name), hold_of(self.retiree())) {
            state.ledger.breach.get_or_insert(Breach::Misretired);
        }
    }

    /// The time until then, by the client's clock.
    fn until(&self, real: u64) -> Duration {
        let state = self.world.state.borrow();
        let then = state.clients[self.client].clock.read(real.max(state.now));
        Duration::from_nanos(then - state.moment(self.client))
    }

    fn moment(&self, client: usize) -> u64 {
        self.world.state.borrow().moment(client)
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if !self.world.state.borrow().story.is_told() {
            return;
        }
        let what = what();
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        state.story.say_of_client(now, self.client, || what);
    }
}

/// A client that received a detached lease.
struct Receiver {
    world: Rc<World>,
    client: usize,
    library: Client,
    detached: DetachedLease,
    id: usize,
    pause: Duration,
}

impl Receiver {
    fn clocks(&self) -> (u64, u64) {
        let state = self.world.state.borrow();
        (state.moment(self.client), state.wall(self.client))
    }

    async fn live(self, extensions: u32) {
        for _ in 0..extensions {
            sleep(self.pause).await;
            let (began, wall) = self.clocks();
            let extended = self.library.extend(&self.detached).await;
            let mut state = self.world.state.borrow_mut();
            let until = match extended {
                Ok(left) => {
                    let until = state.moment(self.client) + left.as_nanos() as u64;
                    // The rest is counted from the request: a pause since then shows only on the wall clock.
                    (until, wall + (until - began))
                }
                // The client knows that the lease is lost.
                Err(LeaseError::Lost(_)) => (0, 0),
                Err(_) => continue,
            };
            state.ledger.hand(self.id, self.detached.id(), self.client, until);
        }
        self.world.state.borrow_mut().ledger.hand(self.id, self.detached.id(), self.client, (0, 0));
        // An undelivered release is delivered later.
        let _ = self.library.release(&self.detached).await;
        self.world.state.borrow_mut().clients[self.client].busy -= 1;
    }
}

/// The text of a name.
pub(crate) fn name(index: usize) -> String {
    format!("x{}", index + 1)
}

/// Acquires a lock of any kind with this patience.
fn asking<K: Kind + 'static>(
    lock: Lock<K>,
    patience: Patience,
    holds: impl Fn(K::Lease) -> Vec<(Lease, Hold)> + 'static,
) -> Asking {
    Box::pin(async move {
        let lease = match patience {
            Patience::Once => lock.try_acquire().await?,
            Patience::Endless => Some(lock.acquire().await?),
            Patience::Within(wait) => Some(lock.acquire_within(wait).await?),
        };
        Ok(lease.map_or_else(Vec::new, holds))
    })
}

fn hold_of(owner: Owner) -> Hold {
    let bits = u64::from_str_radix(&owner.reveal()[..16], 16);
    Hold::Owner(bits.unwrap_or_default())
}

/// Waits for the future, or returns `None` and drops it if the caller cancels first.
async fn until_cancelled<F: Future>(cancel: Option<Cancel>, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    match cancel {
        None => Some(future.await),
        Some(Cancel::Looks(mut left)) => {
            std::future::poll_fn(move |context| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                future.as_mut().poll(context).map(Some)
            })
            .await
        }
        Some(Cancel::After(delay)) => match select(future, Box::pin(sleep(delay))).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        },
    }
}
