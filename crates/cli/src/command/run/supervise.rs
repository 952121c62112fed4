//! Supervises the command while the lock is held, from the start of the command until none of its processes is left.

use std::pin::pin;
use std::time::{Duration, Instant};

use quorlock::{Client, ConfigError, Lease, LostError};
use rustix::process::{Signal, WaitStatus};

use super::guard::{Guard, boot_time};
use super::job::Job;
use super::limits::{CHECK_INTERVAL, Cause, GUARD_MARGIN, Limits, MARGIN, OnLost, Step};
use super::terminal::Terminal;
use crate::exit::Outcome;
use crate::output::Output;
use crate::signals::Signals;

/// How long a command that got SIGTSTP may take to stop before it gets SIGSTOP.
const STOP_TIMEOUT: Duration = Duration::from_millis(100);
/// How long processes that outlive the command may take to end by themselves, as the last part of a pipeline does.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest and the longest pause between two checks whether processes that outlive the command are gone.
const LEFTOVER_PAUSE_MIN: Duration = Duration::from_millis(1);
const LEFTOVER_PAUSE_MAX: Duration = Duration::from_millis(20);
/// How long killed processes may take to disappear, for example while they wait for a disk. Killed processes run no
/// code.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The boot clock is slow by at most one part in this number. NTP slews the clock by at most half of that.
const SLEW_DIVISOR: u32 = 1000;

/// How the run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunEnd {
    pub(super) status: WaitStatus,
    /// Why the command was last asked to end, or was killed.
    pub(super) end_cause: Option<Cause>,
    /// Why the lock was not provably held throughout.
    pub(super) lost: Option<LostError>,
    /// Whether the command was interrupted at the terminal. If so, the other processes of our process group must also
    /// get the signal.
    pub(super) is_interrupted: bool,
}

/// The state while there is no guard. The guard is the process that kills the command if this process cannot.
#[derive(Clone, Copy, Debug)]
struct Unguarded {
    /// The end of the validity that the dead guard knew.
    guarded_until: Instant,
    /// The time of the latest attempt to start another guard.
    tried_at: Instant,
}

/// The command, and the means to watch and end it.
pub(super) struct Supervisor<'a> {
    output: Output,
    lease: &'a Lease,
    limits: Limits,
    signals: &'a mut Signals,
    terminal: Option<Terminal>,
    job: Job,
    guard: &'a mut Guard,
    /// Set when the guard dies, and removed when the next guard has lived for [`CHECK_INTERVAL`].
    unguarded: Option<Unguarded>,
    held_since: Instant,
    /// The end of the lease's validity at the last check.
    valid_until: Instant,
    /// If the lock is broken: the time until which nobody else gets it.
    drains_until: Option<Instant>,
    /// Why the command was asked to end, and when. Removed if the lock is renewed after that.
    end_request: Option<(Cause, Instant)>,
    /// Why the command was last asked to end, or was killed. Stays set if the lock is renewed after that.
    end_cause: Option<Cause>,
    is_killed: bool,
    /// The time at which a command that got SIGTSTP gets SIGSTOP.
    stop_deadline: Option<Instant>,
    /// Whether the next SIGTSTP comes from this process.
    is_own_stop: bool,
}

impl<'a> Supervisor<'a> {
    /// Lets the command run.
    pub(super) fn start(
        output: Output,
        lease: &'a Lease,
        limits: Limits,
        signals: &'a mut Signals,
        guard: &'a mut Guard,
        job: Job,
    ) -> Outcome<Self> {
        let mut supervisor = Self {
            output,
            lease,
            limits,
            signals,
            terminal: Terminal::open(),
            job,
            guard,
            unguarded: None,
            held_since: Instant::now(),
            valid_until: Instant::now(),
            drains_until: None,
            end_request: None,
            end_cause: None,
            is_killed: false,
            stop_deadline: None,
            is_own_stop: false,
        };
        if let Some(terminal) = supervisor.terminal.as_ref().filter(|terminal| terminal.is_for_command) {
            terminal.lend(supervisor.job.pid);
        }
        let left = supervisor.exclusion_left(Instant::now());
        supervisor.send_deadline(left);
        if let Err(failure) = supervisor.job.begin(supervisor.guard) {
            supervisor.job.signal(Signal::KILL);
            supervisor.terminal.as_ref().map(|terminal| terminal.take_back(supervisor.job.pid));
            return Err(failure);
        }
        Ok(supervisor)
    }

    /// Ensures that the command is dead before anybody else can get the lock. Returns when no process of the command is
    /// left.
    pub(super) async fn watch(mut self, client: &Client) -> RunEnd {
        let mut lost = None;
        let mut loss = pin!(self.lease.lost());
        self.renew_if_added(client.add_holder_process_group(self.job.leader.pid)).await;
        let status = loop {
            if self.drains_until.is_none() && self.lease.ensure(Duration::ZERO) == Err(LostError::Broken) {
                self.handle_break(client).await;
            }
            self.ensure_guard();
            if let Some(guard) = self.guard.take_new_id() {
                self.renew_if_added(client.add_holder_process(guard)).await;
            }
            let pause = self.take_due_steps();
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Signal::CHILD => if let Some(status) = self.job.reap(self.guard) {
                        match status.stopping_signal() {
                            Some(signal) => self.handle_stopped_command(signal),
                            None => break status,
                        }
                    },
                    Signal::TSTP => self.handle_stop_request(),
                    signal => self.job.signal(signal),
                },
                why = &mut loss, if lost.is_none() => lost = Some(why),
                () = tokio::time::sleep(pause) => {}
            }
        };
        let lost = lost.or(self.lease.ensure(Duration::ZERO).err());
        let signal = status.terminating_signal();
        if signal == Some(Signal::KILL.as_raw()) && self.guard.is_kill_due() {
            // This process missed the deadline, so the guard has killed the command.
            self.record_cause(Cause::Loss);
        }
        let is_lost = self.end_request.is_some_and(|(cause, _)| cause == Cause::Loss);
        let lost = lost.or(is_lost.then_some(LostError::Expired));
        let had_terminal = self.terminal.as_ref().is_some_and(|terminal| {
            let was_lent = terminal.take_back(self.job.pid);
            if was_lent && signal.is_some() {
                terminal.restore_modes();
            }
            was_lent
        });
        self.end_leftovers().await;
        let has_key = [Signal::INT, Signal::QUIT].map(|signal| Some(signal.as_raw())).contains(&signal);
        let is_interrupted = had_terminal && has_key && self.end_cause.is_none();
        RunEnd { status, end_cause: self.end_cause, lost, is_interrupted }
    }

    /// Handles a broken lock. If the lock was broken in the mode `drain`, nobody else gets the lock before the lease
    /// would have ended, so the command has time to shut down.
    async fn handle_break(&mut self, client: &Client) {
        let fence = self.lease.as_detached().fence();
        let inspection = client.inspect(self.lease.name().as_str()).await.ok();
        let holder = inspection.and_then(|inspection| inspection.holder());
        let is_draining = holder.is_some_and(|(_, holder_fence)| Some(holder_fence) == fence);
        self.drains_until = Some(if is_draining { self.valid_until } else { Instant::now() });
        if is_draining && self.end_request.is_none() && self.limits.on_lost == OnLost::Stop {
            self.ask_to_end(Cause::Broken);
        }
    }

    /// Returns for how long nobody else can get the lock.
    fn exclusion_left(&mut self, now: Instant) -> Duration {
        if let Some(until) = self.drains_until {
            return until.saturating_duration_since(now);
        }
        let left = self.lease.validity();
        self.valid_until = now + left;
        left
    }

    /// Starts a renewal if a process was added, because the renewal tells the nodes of the process.
    async fn renew_if_added(&self, was_added: Result<bool, ConfigError>) {
        // An error means that the process has ended, so the nodes need not know of it.
        if was_added.unwrap_or_default() {
            // The renewal continues in the background, because signals must not wait for it.
            let _ = tokio::time::timeout(Duration::ZERO, self.lease.extend()).await;
        }
    }

    /// Starts another guard if there is none.
    fn ensure_guard(&mut self) {
        let now = Instant::now();
        if self.guard.id().is_some() {
            // A new guard counts only after it has lived for this time, because it may die at once.
            self.unguarded = self.unguarded.filter(|unguarded| now.duration_since(unguarded.tried_at) < CHECK_INTERVAL);
            return;
        }
        let is_first = self.unguarded.is_none();
        let guarded_until = self.unguarded.map_or(self.valid_until, |unguarded| unguarded.guarded_until);
        if self.unguarded.is_some_and(|unguarded| now.duration_since(unguarded.tried_at) < CHECK_INTERVAL / 4) {
            return;
        }
        self.unguarded = Some(Unguarded { guarded_until, tried_at: now });
        if let Err(error) = self.guard.replace()
            && is_first
        {
            let name = self.lease.name();
            self.output.note(format!("the guard process for {name} has died, and we cannot start a guard: {error}"));
        }
    }

    /// Sends the guard the deadline: the guard kills the command at this time, unless it gets a later deadline before.
    fn send_deadline(&mut self, left: Duration) {
        let kill_in = left.saturating_sub(GUARD_MARGIN + left / SLEW_DIVISOR);
        let ends_command = self.limits.on_lost != OnLost::Ignore;
        self.guard.set_deadline(ends_command.then(|| boot_time() + kill_in));
    }

    /// Prints why the command must end, and what this process does to end it.
    fn report(&self, cause: Cause, action: &str) {
        let name = self.lease.name();
        let reason = match cause {
            Cause::Loss if self.drains_until.is_none() => "cannot be renewed",
            Cause::MaxHold => "has been held for long enough",
            Cause::Unguarded => "has no guard",
            Cause::Loss | Cause::Broken => "was broken",
        };
        self.output.note(format!("{name} {reason}: {action} the command"));
    }

    /// Sends SIGTERM to the command, and prints the cause.
    fn ask_to_end(&mut self, cause: Cause) {
        self.report(cause, "ending");
        self.end_request = None;
        self.record_cause(cause);
        self.job.signal(Signal::TERM);
        // A stopped command could not handle the signal.
        self.job.signal(Signal::CONT);
    }

    /// Records why the command must end, unless a cause is already recorded.
    fn record_cause(&mut self, cause: Cause) {
        if self.end_request.is_none() {
            self.end_request = Some((cause, Instant::now()));
            self.end_cause = Some(cause);
        }
    }

    /// Takes the steps that are due. Returns the time until the next check.
    fn take_due_steps(&mut self) -> Duration {
        if self.is_killed {
            // No step is due until the command ends.
            return Duration::from_secs(3600);
        }
        let now = Instant::now();
        if self.stop_deadline.is_some_and(|deadline| deadline <= now) {
            self.stop_deadline = None;
            self.job.signal(Signal::STOP);
        }
        let held = now.duration_since(self.held_since);
        let left = self.exclusion_left(now);
        self.send_deadline(left);
        if self.end_request.take_if(|(cause, _)| self.limits.may_continue(*cause, left)).is_some() {
            self.output.note(format!("{} was renewed: the command may continue", self.lease.name()));
        }
        let end_request = self.end_request.map(|(cause, at)| (cause, now.duration_since(at)));
        let guarded_left =
            self.unguarded.map_or(left, |unguarded| unguarded.guarded_until.saturating_duration_since(now));
        let actual_cause = |cause| if cause == Cause::Loss && guarded_left < left { Cause::Unguarded } else { cause };
        match self.limits.next_step(left.min(guarded_left), held, end_request) {
            Step::Wait(pause) => {
                let pause = self.stop_deadline.map_or(pause, |deadline| pause.min(deadline.duration_since(now)));
                if self.guard.id().is_none() { pause.min(CHECK_INTERVAL / 4) } else { pause }
            }
            Step::AskToEnd(cause) => {
                self.ask_to_end(actual_cause(cause));
                Duration::ZERO
            }
            Step::Kill(cause) => {
                // If the command was not asked to end, this process was stopped until it was too late to ask.
                if self.end_request.is_none() {
                    self.report(actual_cause(cause), "killing");
                }
                self.record_cause(actual_cause(cause));
                self.is_killed = true;
                self.job.signal(Signal::KILL);
                Duration::ZERO
            }
        }
    }

    /// Handles SIGTSTP: stops the command before this process stops, because a stopped process does not renew the lock.
    fn handle_stop_request(&mut self) {
        if std::mem::take(&mut self.is_own_stop) {
            return;
        }
        // Without a shell that would continue this process, only the command stops, and this process renews the lock.
        if self.terminal.as_ref().is_some_and(Terminal::has_shell) {
            self.stop_deadline = Some(Instant::now() + STOP_TIMEOUT);
        }
        self.job.signal(Signal::TSTP);
    }

    /// Handles a stopped command. If the terminal stopped the command, this process stops as well, so that the shell
    /// sees a stopped job.
    fn handle_stopped_command(&mut self, signal: i32) {
        let was_asked_to_stop = self.stop_deadline.take().is_some();
        let Some(terminal) = &self.terminal else { return };
        let group = self.job.pid;
        let needs_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        if needs_terminal && terminal.is_in_foreground() {
            terminal.lend(group);
            return self.job.signal(Signal::CONT);
        }
        let is_lent = terminal.is_lent_to(group);
        if !(was_asked_to_stop || needs_terminal || is_lent) {
            return;
        }
        if !terminal.has_shell() {
            return self.job.signal(Signal::CONT);
        }
        terminal.take_back(group);
        self.is_own_stop = true;
        Terminal::stop_this_process();
        // Nobody renewed the lock while this process was stopped. If the lock may be lost, the command must not
        // continue.
        if self.lease.validity() > MARGIN {
            terminal.lend(group);
            self.job.signal(Signal::CONT);
        }
    }

    /// Ends the processes of the group that outlive the command, because they would run without the lock.
    async fn end_leftovers(&mut self) {
        let started = Instant::now();
        let mut pause = LEFTOVER_PAUSE_MIN;
        let mut was_signaled = self.is_killed;
        loop {
            self.job.reap(self.guard);
            self.ensure_guard();
            let left = self.exclusion_left(Instant::now());
            self.send_deadline(left);
            let elapsed = started.elapsed();
            let is_kill_due = elapsed >= LEFTOVER_TIMEOUT + self.limits.grace || self.lease.validity() <= MARGIN;
            let is_end_due = self.is_killed || is_kill_due || elapsed >= LEFTOVER_TIMEOUT;
            if !self.job.leader.group_has_members() || is_end_due && !self.job.leader.group_is_alive() {
                return;
            }
            if self.is_killed || is_kill_due {
                self.job.signal(Signal::KILL);
            } else if is_end_due && !was_signaled {
                was_signaled = true;
                self.output
                    .note("the command left processes behind: ending these processes before the lock is released");
                self.job.signal(Signal::TERM);
                self.job.signal(Signal::CONT);
            }
            if elapsed >= LEFTOVER_TIMEOUT + self.limits.grace + KILL_TIMEOUT {
                return self.output.note("processes that the command left behind were killed, but have not ended");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LEFTOVER_PAUSE_MAX);
        }
    }
}
