//! The users of the library: tasks that acquire locks, work, and release or cancel.

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

use crate::ledger::{Grant, LeaseKind, Violation};
use crate::plan::{Cancel, Ending, Goal, Job, Patience, Plan};
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

type AcquireFuture = Pin<Box<dyn Future<Output = Result<Vec<(Lease, LeaseKind)>, AcquireError>>>>;

impl User {
    /// Does the jobs in order.
    pub(crate) async fn do_jobs(self, jobs: Vec<Job>) {
        if let Some(simultaneous_start) = self.plan.simultaneous_start_nanos {
            sleep(self.sleep_time_until(simultaneous_start)).await;
        }
        for (at, job) in jobs.iter().enumerate() {
            if at > 0 || self.plan.simultaneous_start_nanos.is_none() {
                sleep(job.rest_before).await;
            }
            self.run(job).await;
        }
        self.world.state.borrow_mut().clients[self.client].open_tasks -= 1;
    }

    async fn run(&self, job: &Job) {
        if let Goal::Break { is_now } = job.goal {
            return self.break_lock(job.name, is_now).await;
        }
        if let Goal::Retire { delay } = job.goal {
            sleep(delay).await;
            return self.retire(job.name).await;
        }
        let requested_at = self.world.now();
        self.say(|| format!("wants {}: {:?}, {:?}", name(job.name), job.goal, job.patience));
        let (acquiring, owner) = self.start_acquire(job);
        let leases = match until_cancelled(job.cancel, acquiring).await {
            Some(Ok(leases)) => leases,
            Some(Err(error)) => {
                if let AcquireError::Retired { .. } = error {
                    self.check_refusal_as_retired(job);
                }
                return self.say(|| format!("did not get {}: {error}", name(job.name)));
            }
            None => return self.say(|| format!("has cancelled {}", name(job.name))),
        };
        let mut held = Vec::new();
        for (lease, kind) in leases {
            let id = self.record_grant(&lease, kind, requested_at);
            held.push((lease, id));
        }
        self.work(job, &held).await;
        if let (Goal::Enter { enters_again: true }, Some(owner)) = (job.goal, owner) {
            self.enter_again(job, owner).await;
        }
        for (lease, id) in held {
            self.end_lease(job, lease, id).await;
        }
    }

    /// Returns the future of the job's acquire and, for a reentrant lock, the owner.
    fn start_acquire(&self, job: &Job) -> (AcquireFuture, Option<Owner>) {
        let (client, patience, lock) = (&self.library, job.patience, name(job.name));
        let renewals = if job.has_renewals { Renewals::default() } else { Renewals::Off };
        let alone = |lease: Lease| vec![(lease, LeaseKind::Alone)];
        match job.goal {
            Goal::Plain => (acquire_future(client.lock(lock).plain().renewals(renewals), patience, alone), None),
            Goal::Alone | Goal::Break { .. } | Goal::Retire { .. } => {
                (acquire_future(client.lock(lock).renewals(renewals), patience, alone), None)
            }
            Goal::Read => {
                let reader = |lease: Lease| vec![(lease, LeaseKind::Reader)];
                (acquire_future(client.rw(lock).read().renewals(renewals), patience, reader), None)
            }
            Goal::Write => (acquire_future(client.rw(lock).write().renewals(renewals), patience, alone), None),
            Goal::Enter { .. } | Goal::EnterAsRetiree => {
                let lock = client.reentrant(lock).renewals(renewals);
                let lock = if job.goal == Goal::EnterAsRetiree { lock.owned_by(self.retiree()) } else { lock };
                let owner = lock.owner();
                let kind = kind_of_owner(owner);
                (acquire_future(lock, patience, move |lease: Lease| vec![(lease, kind)]), Some(owner))
            }
            Goal::Slot(permits) => {
                let slot = |lease: Lease| {
                    let kind = lease.slot().map_or(LeaseKind::Alone, LeaseKind::Slot);
                    vec![(lease, kind)]
                };
                (acquire_future(client.semaphore(lock, permits).renewals(renewals), patience, slot), None)
            }
            Goal::All => {
                let all = client.all((0..self.plan.names.len()).map(name)).renewals(renewals);
                let each =
                    |leases: Leases| leases.into_vec().into_iter().map(|lease| (lease, LeaseKind::Alone)).collect();
                (acquire_future(all, patience, each), None)
            }
        }
    }

    /// Records a new lease. Returns the lease's number in the ledger, or `None` if the lease is already lost.
    fn record_grant(&self, lease: &Lease, kind: LeaseKind, requested_at: u64) -> Option<usize> {
        let name = lease.name().as_str().to_owned();
        // No caller relies on a lease that was lost before the acquire returned.
        if lease.ensure(Duration::from_nanos(1)).is_err() {
            self.say(|| format!("got {name}, already lost"));
            return None;
        }
        let (client, fence, peek) = (self.client, lease.fence().ok(), Peek::of(lease));
        self.say(|| {
            let fence_text = fence.map_or("without a fence".into(), |fence| format!("with fence {fence}"));
            format!(
                "holds {name}, {fence_text}, for {:.1?}",
                peek.validity(self.moment(client), self.world.state.borrow().wall(client))
            )
        });
        let grant = Grant { name, kind, client, requested_at, fence, peek };
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        Some(state.ledger.grant(grant, now))
    }

    /// Works in steps. Each step writes to a store that checks fences.
    async fn work(&self, job: &Job, held: &[(Lease, Option<usize>)]) {
        let step = job.work_time / (job.steps * 2);
        for round in 0..job.steps {
            sleep(step).await;
            if job.has_extension && round == 0 {
                for (lease, _) in held {
                    // The ledger reads the result from the lease.
                    let _ = lease.extend().await;
                }
            }
            for (lease, id) in held {
                let (fence, Some(id)) = (lease.fence(), *id) else { continue };
                match fence {
                    // The write comes later than the check of the lease, as in real work.
                    Ok(fence) => {
                        sleep(step).await;
                        let is_accepted = self.world.state.borrow_mut().ledger.write(id, fence);
                        if !is_accepted {
                            self.say(|| format!("writes too late, with fence {fence}"));
                        }
                    }
                    Err(FenceError::Plain) => {}
                    Err(error) => return self.say(|| format!("has lost {}: {error}", lease.name())),
                }
            }
        }
    }

    async fn enter_again(&self, job: &Job, owner: Owner) {
        let requested_at = self.world.now();
        let lock = self.library.reentrant(name(job.name)).owned_by(owner);
        if let Ok(lease) = lock.acquire_within(self.plan.ttl).await {
            let id = self.record_grant(&lease, kind_of_owner(owner), requested_at);
            self.work(job, &[(lease, id)]).await;
        }
    }

    /// Ends a lease as the job says.
    async fn end_lease(&self, job: &Job, lease: Lease, id: Option<usize>) {
        let name = lease.name().clone();
        match (job.ending, id) {
            (Ending::Detach { client, extensions }, Some(id)) => self.detach(lease, id, client, extensions),
            (Ending::Release | Ending::Detach { .. }, _) => {
                self.say(|| format!("releases {name}"));
                match until_cancelled(job.cancel, lease.release()).await {
                    Some(Ok(())) | None => {}
                    Some(Err(error)) => self.say(|| format!("release failed: {error}")),
                }
            }
            (Ending::Drop, _) => self.say(|| format!("drops {name}")),
            (Ending::UntilLost, _) => {
                let (lost, two_ttls) = (Box::pin(lease.lost()), Box::pin(sleep(self.plan.ttl * 2)));
                if let Either::Left((why, _)) = select(lost, two_ttls).await {
                    self.say(|| format!("has lost {name}: {why}"));
                }
            }
        }
    }

    /// Detaches the lease and passes it to the client `to` or, if this client is not connected, keeps it. The receiver
    /// extends and releases the detached lease.
    fn detach(&self, lease: Lease, id: usize, to: usize, extensions: u32) {
        let until = self.moment(self.client) + lease.validity().as_nanos() as u64;
        let until = (until, Peek::of(&lease).wall_until());
        let Ok(detached) = lease.detach() else { return };
        self.world.state.borrow_mut().ledger.record_detached(id, detached.id(), self.client, until);
        let connected_client = self.clients.borrow().get(to).cloned().flatten();
        let (client, library) =
            connected_client.map_or_else(|| (self.client, self.library.clone()), |library| (to, library));
        self.say(|| format!("passes detached {} to {}", detached.name(), crate::world::client_name(client)));
        let receiver =
            Receiver { world: Rc::clone(&self.world), client, library, detached, id, pause: self.plan.ttl / 3 };
        self.world.state.borrow_mut().clients[client].open_tasks += 1;
        self.world.spawn_task(client, receiver.extend_and_release(extensions));
    }

    async fn break_lock(&self, index: usize, is_now: bool) {
        let Ok(inspection) = self.library.inspect(name(index)).await else { return };
        let Some(target) = inspection.target() else { return };
        self.say(|| format!("breaks {}: {target}", name(index)));
        let request = Break::new(target, "simulated");
        // The ledger reads the result from the holder's lease.
        let _ = self.library.break_lock(name(index), if is_now { request.now() } else { request }).await;
    }

    /// The owner that is retired in this run. All clients use the same owner.
    fn retiree(&self) -> Owner {
        Owner::from_bits(u128::from(self.plan.seed) << 64)
    }

    /// Retires the owner from a name. Repeats this until a majority has acknowledged the retirement.
    async fn retire(&self, index: usize) {
        let (owner, keep_out) = (self.retiree(), self.plan.max_ttl);
        loop {
            self.say(|| format!("retires the owner from {}", name(index)));
            let sent = self.world.now();
            // A node with a fast clock removes its tombstone before the time `keep_out` has passed.
            let until = sent + keep_out.as_nanos() as u64 * 4 / 5;
            self.world.state.borrow_mut().ledger.retire(name(index), kind_of_owner(owner), until);
            match self.library.retire(name(index), owner, keep_out).await {
                Ok(_) => break,
                Err(LeaseError::NoQuorum { .. }) => sleep(self.plan.ttl).await,
                Err(error) => return self.say(|| format!("cannot retire the owner: {error}")),
            }
        }
        self.say(|| format!("has retired the owner from {}", name(index)));
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        state.ledger.acknowledge_retirement(now, now + self.plan.ttl.as_nanos() as u64);
    }

    /// Checks an acquire that was refused as retired: the retired owner must have made it, for the name of the
    /// retirement.
    fn check_refusal_as_retired(&self, job: &Job) {
        let is_retirees_job = job.goal == Goal::EnterAsRetiree;
        let mut state = self.world.state.borrow_mut();
        if !is_retirees_job || !state.ledger.is_retired(&name(job.name), kind_of_owner(self.retiree())) {
            state.ledger.violation.get_or_insert(Violation::WronglyRetired);
        }
    }

    /// How long the client must sleep, by its own clock, until this virtual time.
    fn sleep_time_until(&self, virtual_time: u64) -> Duration {
        let state = self.world.state.borrow();
        let reading = state.clients[self.client].clock.read(virtual_time.max(state.now));
        Duration::from_nanos(reading - state.moment(self.client))
    }

    /// The reading of a client's clock.
    fn moment(&self, client: usize) -> u64 {
        self.world.state.borrow().moment(client)
    }

    /// Adds an event of this client to the trace.
    fn say(&self, event: impl FnOnce() -> String) {
        if !self.world.state.borrow().trace.is_recorded() {
            return;
        }
        let event = event();
        let mut state = self.world.state.borrow_mut();
        let now = state.now;
        state.trace.add_of_client(now, self.client, || event);
    }
}

/// The task of a client that received a detached lease.
struct Receiver {
    world: Rc<World>,
    client: usize,
    library: Client,
    detached: DetachedLease,
    /// The number of the lease in the ledger.
    id: usize,
    /// The time before each extension.
    pause: Duration,
}

impl Receiver {
    /// The readings of the client's boot-time clock and wall clock.
    fn clocks(&self) -> (u64, u64) {
        let state = self.world.state.borrow();
        (state.moment(self.client), state.wall(self.client))
    }

    async fn extend_and_release(self, extensions: u32) {
        for _ in 0..extensions {
            sleep(self.pause).await;
            let (boot_before, wall_before) = self.clocks();
            let extended = self.library.extend(&self.detached).await;
            let mut state = self.world.state.borrow_mut();
            let until = match extended {
                Ok(left) => {
                    let until = state.moment(self.client) + left.as_nanos() as u64;
                    // The validity counts from the request. If the machine was paused since then, only the wall clock
                    // has counted the pause.
                    (until, wall_before + (until - boot_before))
                }
                // The client knows that the lease is lost, so the lease is over for it.
                Err(LeaseError::Lost(_)) => (0, 0),
                Err(_) => continue,
            };
            state.ledger.record_detached(self.id, self.detached.id(), self.client, until);
        }
        self.world.state.borrow_mut().ledger.record_detached(self.id, self.detached.id(), self.client, (0, 0));
        // If the release fails, the library delivers it later.
        let _ = self.library.release(&self.detached).await;
        self.world.state.borrow_mut().clients[self.client].open_tasks -= 1;
    }
}

/// The text of the name with this index.
pub(crate) fn name(index: usize) -> String {
    format!("x{}", index + 1)
}

/// The future of an acquire that waits as `patience` says. `to_leases` converts the result of any kind of lock to leases
/// with their kinds.
fn acquire_future<K: Kind + 'static>(
    lock: Lock<K>,
    patience: Patience,
    to_leases: impl Fn(K::Lease) -> Vec<(Lease, LeaseKind)> + 'static,
) -> AcquireFuture {
    Box::pin(async move {
        let lease = match patience {
            Patience::Once => lock.try_acquire().await?,
            Patience::Endless => Some(lock.acquire().await?),
            Patience::Within(wait) => Some(lock.acquire_within(wait).await?),
        };
        Ok(lease.map_or_else(Vec::new, to_leases))
    })
}

fn kind_of_owner(owner: Owner) -> LeaseKind {
    let bits = u64::from_str_radix(&owner.reveal()[..16], 16);
    LeaseKind::Owner(bits.unwrap_or_default())
}

/// Waits for the future. If the caller cancels first, drops the future and returns `None`.
async fn until_cancelled<F: Future>(cancel: Option<Cancel>, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    match cancel {
        None => Some(future.await),
        Some(Cancel::Polls(mut left)) => {
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
