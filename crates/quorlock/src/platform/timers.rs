//! One queue of moments for everything that a client has to do at a time: deadlines, retries, renewals, lost latches.
//!
//! On Linux it is driven by a timer on the boot-time clock, which is due the moment a suspended machine wakes up.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use quorlock_core::time::Moment;
use tokio::sync::Notify;

use crate::platform::clock;
use crate::platform::runtime;
use crate::platform::sync::Mutex;

/// Something that wants to be told when its time has come.
pub(crate) trait Timed: Send + Sync {
    /// Its time has come, or it was called early. Returns when to be called again.
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment>;
}

/// The queue. [`run`](Self::run) is its task.
#[derive(Default)]
pub(crate) struct Timers {
    queue: Mutex<CallQueue>,
    wake: Notify,
}

/// Names a call: its moment, and its number in the order of asking.
pub(crate) type Call = (Moment, u64);

/// A queue shorter than this is not swept.
const SWEEP_MIN: usize = 1_024;

#[derive(Default)]
struct CallQueue {
    calls: BTreeMap<Call, Weak<dyn Timed>>,
    number: u64,
    /// How many calls were left by the last sweep.
    swept: usize,
    /// The moment for which the task sleeps; `None` while it is awake, or sleeps without end.
    armed: Option<Moment>,
    closed: bool,
    /// The task is gone: nobody will be called any more.
    ended: bool,
}

impl CallQueue {
    fn add(&mut self, at: Moment, whom: Weak<dyn Timed>) -> Call {
        // A `Weak` keeps the memory of an owner that is gone: most are gone before their time comes.
        if self.calls.len() > self.swept * 2 + SWEEP_MIN {
            self.calls.retain(|_, whom| whom.strong_count() > 0);
            self.swept = self.calls.len();
        }
        self.number += 1;
        self.calls.insert((at, self.number), whom);
        (at, self.number)
    }

    /// The moment of the next call. Nobody wakes up for owners that are gone.
    fn next(&mut self) -> Option<Moment> {
        while let Some(first) = self.calls.first_entry() {
            if first.get().strong_count() > 0 {
                return Some(first.key().0);
            }
            first.remove();
        }
        None
    }

    /// The next call, if its time has come.
    fn take_due(&mut self, now: Moment) -> Option<Weak<dyn Timed>> {
        self.next().filter(|at| *at <= now)?;
        self.calls.pop_first().map(|(_, whom)| whom)
    }
}

impl Timers {
    /// Calls `whom` at `at`, if it still exists then. `None` when nobody will be called any more.
    #[must_use]
    pub(crate) fn at(&self, at: Moment, whom: Weak<dyn Timed>) -> Option<Call> {
        let mut queue = self.queue();
        if queue.ended {
            return None;
        }
        let call = queue.add(at, whom);
        if queue.armed.is_none_or(|armed| at < armed) {
            // The next caller need not wake the task again for a later moment.
            queue.armed = Some(at);
            drop(queue);
            self.wake.notify_one();
        }
        Some(call)
    }

    /// Nobody waits for this any more: what it would have called can be freed, and the task sleeps on. It may be under
    /// way, or over.
    pub(crate) fn cancel(&self, call: Call) {
        let whom = self.queue().calls.remove(&call);
        drop(whom);
    }

    /// Calls everyone early, for they may have something to do now, and ends the task once nobody waits any more.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.call_all(clock::now());
        self.wake.notify_one();
    }

    /// The task is gone, and with it the time: calls everyone who still waits as if theirs had come.
    pub(crate) fn end(&self) {
        self.queue().ended = true;
        self.call_all(Moment::from_nanos(u64::MAX));
    }

    fn call_all(&self, now: Moment) {
        let waiting = std::mem::take(&mut self.queue().calls);
        for whom in waiting.into_values() {
            self.call(whom, now);
        }
    }

    /// Calls everyone whose time has come, until closed.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut alarm = Alarm::new();
        loop {
            let woken = self.wake.notified();
            let next = {
                let mut queue = self.queue();
                let next = queue.next();
                queue.armed = next;
                if queue.closed && next.is_none() {
                    return;
                }
                next
            };
            match next {
                Some(at) if at <= clock::now() => {
                    self.call_due();
                    // Somebody may always be due: the others on this thread want to live, too.
                    runtime::yield_now().await;
                }
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = alarm.ring_after(at.since(clock::now())) => {}
                        () = woken => {}
                    }
                }
                None => woken.await,
            }
        }
    }

    fn call_due(&self) {
        let now = clock::now();
        loop {
            let due = self.queue().take_due(now);
            let Some(whom) = due else { return };
            self.call(whom, now);
        }
    }

    fn call(&self, whom: Weak<dyn Timed>, now: Moment) {
        let Some(timed) = whom.upgrade() else { return };
        if let Some(again) = timed.tick(now) {
            self.queue().add(again, whom);
        }
    }

    /// How many calls there are to come, to those who still exist.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn to_come(&self) -> usize {
        self.queue().calls.values().filter(|whom| whom.strong_count() > 0).count()
    }

    fn queue(&self) -> MutexGuard<'_, CallQueue> {
        self.queue.lock()
    }
}

/// A suspend-proof sleep; where the system has none to offer, the runtime's own.
struct Alarm {
    #[cfg(target_os = "linux")]
    timer: Option<tokio::net::unix::pipe::Receiver>,
}

#[cfg(target_os = "linux")]
impl Alarm {
    fn new() -> Self {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        #[cfg(feature = "sim")]
        if crate::platform::sim::is_on() {
            return Self { timer: None };
        }
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .map_err(std::io::Error::from)
            // To the runtime a timer is a pipe out of which eight bytes come when it rings.
            .and_then(tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked);
        if let Err(error) = &timer {
            tracing::warn!(%error, "no boot-time timer: a suspended machine notices a lost lease late");
        }
        Self { timer: timer.ok() }
    }

    /// Cancel safe: a ring that nobody waits for is forgotten with the next one.
    async fn ring_after(&mut self, delay: Duration) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let Some(timer) = &self.timer else { return runtime::sleep(delay).await };
        // A zero would switch the timer off.
        let delay = delay.max(Duration::from_nanos(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: delay.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        if timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).is_err() {
            return runtime::sleep(delay).await;
        }
        loop {
            let mut expirations = [0; 8];
            match timer.readable().await.and_then(|()| timer.try_read(&mut expirations)) {
                // Stale readiness, of a ring that was replaced by this one.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    fn new() -> Self {
        Self {}
    }

    async fn ring_after(&mut self, delay: Duration) {
        runtime::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests;
