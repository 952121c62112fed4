//! The timer queue for everything that a client does at a given time: it enforces deadlines, retries, renews leases,
//! and notices lost leases.
//!
//! On Linux, a timer on the boot-time clock drives the queue, so overdue calls run as soon as a suspended machine
//! resumes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use quorlock_core::time::Moment;
use tokio::sync::Notify;

use crate::platform::sync::Mutex;
use crate::platform::{clock, runtime};

/// An object that can be called at a given moment.
pub(crate) trait Timed: Send + Sync {
    /// Does what is due at `now`. Called at the scheduled moment or earlier. Returns the moment of the next call.
    fn tick(self: Arc<Self>, now: Moment) -> Option<Moment>;
}

/// The timer queue. [`run`](Self::run) is its task.
#[derive(Default)]
pub(crate) struct Timers {
    queue: Mutex<CallQueue>,
    wake: Notify,
}

/// Identifies a scheduled call: its moment and a sequence number.
pub(crate) type Call = (Moment, u64);

/// A queue of at most this length is never swept of the calls of dropped targets.
const SWEEP_MIN: usize = 1_024;

#[derive(Default)]
struct CallQueue {
    calls: BTreeMap<Call, Weak<dyn Timed>>,
    last_number: u64,
    /// The number of calls that the last sweep left in the queue. A sweep removes the calls of dropped targets.
    left_by_sweep: usize,
    /// The moment until which the task sleeps; `None` if no call is scheduled.
    sleeps_until: Option<Moment>,
    closed: bool,
    /// Whether the task has ended, so that no more calls can be scheduled.
    ended: bool,
}

impl CallQueue {
    fn add(&mut self, at: Moment, target: Weak<dyn Timed>) -> Call {
        // Most targets are dropped before their moment, and a `Weak` keeps the memory of a dropped target allocated.
        if self.calls.len() > self.left_by_sweep * 2 + SWEEP_MIN {
            self.calls.retain(|_, target| target.strong_count() > 0);
            self.left_by_sweep = self.calls.len();
        }
        self.last_number += 1;
        self.calls.insert((at, self.last_number), target);
        (at, self.last_number)
    }

    /// Returns the moment of the next call. Discards calls whose target was dropped.
    fn next(&mut self) -> Option<Moment> {
        while let Some(first) = self.calls.first_entry() {
            if first.get().strong_count() > 0 {
                return Some(first.key().0);
            }
            first.remove();
        }
        None
    }

    /// Removes and returns the next call if it is due.
    fn take_due(&mut self, now: Moment) -> Option<Weak<dyn Timed>> {
        self.next().filter(|at| *at <= now)?;
        self.calls.pop_first().map(|(_, target)| target)
    }
}

impl Timers {
    /// Schedules a call of `target` at `at`, unless `target` is dropped before. Returns `None` if the queue has ended.
    #[must_use]
    pub(crate) fn at(&self, at: Moment, target: Weak<dyn Timed>) -> Option<Call> {
        let mut queue = self.queue.lock();
        if queue.ended {
            return None;
        }
        let call = queue.add(at, target);
        if queue.sleeps_until.is_none_or(|until| at < until) {
            // Set the moment now, so that a caller with a later moment does not wake the task again.
            queue.sleeps_until = Some(at);
            drop(queue);
            self.wake.notify_one();
        }
        Some(call)
    }

    /// Cancels a call and drops the reference to the target. Does nothing if the call has started.
    pub(crate) fn cancel(&self, call: Call) {
        let target = self.queue.lock().calls.remove(&call);
        drop(target);
    }

    /// Calls every target early, because any target may have work to do when the client closes. The task ends once no
    /// calls are left.
    pub(crate) fn close(&self) {
        self.call_all(clock::now());
        // Close the queue only now. The queue is empty while the targets are called; if it were closed, the task would
        // end although the targets may schedule new calls.
        self.queue.lock().closed = true;
        self.wake.notify_one();
    }

    /// Calls every remaining target as if its moment had come, because the task has ended and cannot call it later.
    pub(crate) fn end(&self) {
        self.queue.lock().ended = true;
        self.call_all(Moment::from_nanos(u64::MAX));
    }

    fn call_all(&self, now: Moment) {
        let calls = std::mem::take(&mut self.queue.lock().calls);
        for target in calls.into_values() {
            self.call(target, now);
        }
    }

    /// Runs due calls until the queue is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut alarm = Alarm::new();
        loop {
            let woken = self.wake.notified();
            let next = {
                let mut queue = self.queue.lock();
                let next = queue.next();
                queue.sleeps_until = next;
                if queue.closed && next.is_none() {
                    return;
                }
                next
            };
            match next {
                Some(at) if at <= clock::now() => {
                    self.call_due();
                    // Yield to the other tasks on this thread, even if another target is due already.
                    runtime::yield_now().await;
                }
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = alarm.sleep(at.since(clock::now())) => {}
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
            let due = self.queue.lock().take_due(now);
            let Some(target) = due else { return };
            self.call(target, now);
        }
    }

    fn call(&self, target: Weak<dyn Timed>, now: Moment) {
        let Some(timed) = target.upgrade() else { return };
        let Some(next) = Arc::clone(&timed).tick(now) else { return };
        let mut queue = self.queue.lock();
        if !queue.ended {
            queue.add(next, target);
            return;
        }
        drop(queue);
        timed.tick(Moment::from_nanos(u64::MAX));
    }

    /// Returns the number of scheduled calls whose target still exists.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn scheduled_calls(&self) -> usize {
        self.queue.lock().calls.values().filter(|target| target.strong_count() > 0).count()
    }
}

/// Sleeps by the boot-time clock, which also runs while the machine is suspended. Uses the runtime's sleep if the
/// system has no timer for this clock.
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
            // To the runtime, a timerfd looks like a pipe that delivers eight bytes when the timer fires.
            .and_then(tokio::net::unix::pipe::Receiver::from_owned_fd_unchecked);
        if let Err(error) = &timer {
            tracing::warn!(%error, "no boot-time timer: after a suspension of the machine, losses are noticed late");
        }
        Self { timer: timer.ok() }
    }

    /// Sleeps for `delay`. Cancel safe: the next call resets the timer, which discards an earlier expiration.
    async fn sleep(&mut self, delay: Duration) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let Some(timer) = &self.timer else { return runtime::sleep(delay).await };
        // Zero would disarm the timer.
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
                // The readiness is stale: it was caused by an earlier setting of the timer.
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

    async fn sleep(&mut self, delay: Duration) {
        runtime::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests;
