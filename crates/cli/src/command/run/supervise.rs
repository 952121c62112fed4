//! Supervises the command under the lock, from its start until no process of it is left.

use std::pin::pin;
use std::time::{Duration, Instant};

use quorlock::{Client, ConfigError, Lease, LostError};
use rustix::process::{Signal, WaitStatus};

use super::guard::{Guard, boot_time};
use super::job::Job;
use super::limits::{Cause, GUARD_MARGIN, LOOK, Limits, MARGIN, Measure, OnLost};
use super::terminal::Terminal;
use crate::exit::Outcome;
use crate::output::Output;
use crate::signals::Signals;

/// How long a command that got SIGTSTP may take to stop before it gets SIGSTOP.
const STOP_PATIENCE: Duration = Duration::from_millis(100);
/// How long the processes that the command left behind may take to end by themselves. The last part of a pipeline, for
/// example, ends by itself.
const LEFT_PATIENCE: Duration = Duration::from_secs(1);
/// The shortest and longest interval of the checks whether these processes are gone.
const LEFT_LOOK_MIN: Duration = Duration::from_millis(1);
const LEFT_LOOK_MAX: Duration = Duration::from_millis(20);
/// How long killed processes may take to disappear, for example while they wait for a disk. They run no code meanwhile.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// The boot clock is assumed to be slow by at most one part in this number: NTP slews it by at most half of that.
const SLEW: u32 = 1000;

/// How the run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) status: WaitStatus,
    /// Why the command was last asked to end, or killed.
    pub(super) cut: Option<Cause>,
    /// Why the lock was not provably held throughout.
    pub(super) lost: Option<LostError>,
    /// Whether the command was interrupted at the terminal. If so, the other processes of our process group must get
    /// the signal, too.
    pub(super) interrupted: bool,
}

/// The state after the guard (the process that kills the command if this process cannot) has died.
#[derive(Clone, Copy, Debug)]
struct Unguarded {
    /// The end of the validity that the dead guard knew.
    until: Instant,
    /// The last attempt to start another guard.
    tried: Instant,
}

/// The command, and everything that watches it.
pub(super) struct Supervisor<'a> {
    output: Output,
    lease: &'a Lease,
    limits: Limits,
    signals: &'a mut Signals,
    terminal: Option<Terminal>,
    job: Job,
    guard: &'a mut Guard,
    unguarded: Option<Unguarded>,
    since: Instant,
    /// The end of the lease's validity at the last check.
    valid_until: Instant,
    /// If the lock is broken: the time until which nobody else gets it.
    drains_until: Option<Instant>,
    /// Why the command was asked to end, and when.
    asked: Option<(Cause, Instant)>,
    /// Why the command was last asked to end, or killed. Stays set if the lock was renewed after that.
    cut: Option<Cause>,
    killed: bool,
    /// The time at which a command that got SIGTSTP gets SIGSTOP.
    stop_by: Option<Instant>,
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
            since: Instant::now(),
            valid_until: Instant::now(),
            drains_until: None,
            asked: None,
            cut: None,
            killed: false,
            stop_by: None,
            is_own_stop: false,
        };
        if let Some(terminal) = supervisor.terminal.as_ref().filter(|terminal| terminal.is_for_command) {
            terminal.lend(supervisor.job.pid);
        }
        let left = supervisor.left(Instant::now());
        supervisor.tell_deadline(left);
        if let Err(failure) = supervisor.job.begin(supervisor.guard) {
            supervisor.job.signal(Signal::KILL);
            supervisor.terminal.as_ref().map(|terminal| terminal.take_back(supervisor.job.pid));
            return Err(failure);
        }
        Ok(supervisor)
    }

    /// Ensures that the command is dead before anybody else can get the lock. Returns when no process of the command is
    /// left.
    pub(super) async fn watch(mut self, client: &Client) -> Run {
        let mut lost = None;
        let mut latch = pin!(self.lease.lost());
        self.renew_if(client.also_alive_with_group(self.job.leader.pid)).await;
        let status = loop {
            if self.drains_until.is_none() && self.lease.ensure(Duration::ZERO) == Err(LostError::Broken) {
                self.broken(client).await;
            }
            self.keep_guarded();
            if let Some(guard) = self.guard.take_new() {
                self.renew_if(client.also_alive_with(guard)).await;
            }
            let rest = self.act();
            tokio::select! {
                signal = self.signals.next() => match signal {
                    Signal::CHILD => if let Some(status) = self.job.change(self.guard) {
                        match status.stopping_signal() {
                            Some(signal) => self.stopped(signal),
                            None => break status,
                        }
                    },
                    Signal::TSTP => self.told_to_stop(),
                    signal => self.job.signal(signal),
                },
                why = &mut latch, if lost.is_none() => lost = Some(why),
                () = tokio::time::sleep(rest) => {}
            }
        };
        let lost = lost.or(self.lease.ensure(Duration::ZERO).err());
        let signal = status.terminating_signal();
        if signal == Some(Signal::KILL.as_raw()) && self.guard.is_kill_due() {
            // This process missed the deadline, so the guard has killed the command.
            self.end_for(Cause::Loss);
        }
        let is_lost = self.asked.is_some_and(|(cause, _)| cause == Cause::Loss);
        let lost = lost.or(is_lost.then_some(LostError::Expired));
        let had_terminal = self.terminal.as_ref().is_some_and(|terminal| {
            let lent = terminal.take_back(self.job.pid);
            if lent && signal.is_some() {
                terminal.repair();
            }
            lent
        });
        self.end_the_rest().await;
        let by_terminal = [Signal::INT, Signal::QUIT].map(|signal| Some(signal.as_raw())).contains(&signal);
        Run { status, cut: self.cut, lost, interrupted: had_terminal && by_terminal && self.cut.is_none() }
    }

    /// Handles a broken lock. If the lock was broken in the mode `drain` (nobody else gets it before the lease would
    /// have ended), the command has time to shut down.
    async fn broken(&mut self, client: &Client) {
        let fence = self.lease.as_detached().fence();
        let stands = client.inspect(self.lease.name().as_str()).await.ok().and_then(|look| look.holder());
        let drains = stands.is_some_and(|(_, standing)| Some(standing) == fence);
        self.drains_until = Some(if drains { self.valid_until } else { Instant::now() });
        if drains && self.asked.is_none() && self.limits.on_lost == OnLost::Stop {
            self.ask(Cause::Broken);
        }
    }

    /// Returns for how long nobody else can get the lock.
    fn left(&mut self, now: Instant) -> Duration {
        if let Some(until) = self.drains_until {
            return until.saturating_duration_since(now);
        }
        let left = self.lease.validity();
        self.valid_until = now + left;
        left
    }

    /// Starts a renewal if the nodes must be told about another process.
    async fn renew_if(&self, is_news: Result<bool, ConfigError>) {
        // An error means that the process has ended. Then the nodes need not be told about it.
        if is_news.unwrap_or_default() {
            // The renewal continues in the background, because signals must not wait for it.
            let _ = tokio::time::timeout(Duration::ZERO, self.lease.extend()).await;
        }
    }

    /// Starts another guard if there is none.
    fn keep_guarded(&mut self) {
        let now = Instant::now();
        if self.guard.id().is_some() {
            // A new guard counts only after it has lived for a while: it may die at once, too.
            self.unguarded = self.unguarded.filter(|unguarded| now.duration_since(unguarded.tried) < LOOK);
            return;
        }
        let is_first = self.unguarded.is_none();
        let until = self.unguarded.map_or(self.valid_until, |unguarded| unguarded.until);
        if self.unguarded.is_some_and(|unguarded| now.duration_since(unguarded.tried) < LOOK / 4) {
            return;
        }
        self.unguarded = Some(Unguarded { until, tried: now });
        if let Err(error) = self.guard.replace()
            && is_first
        {
            let name = self.lease.name();
            self.output.note(format!("the guard of {name} has died, and we cannot start a guard: {error}"));
        }
    }

    /// Tells the guard the time at which it must kill the command if we have not moved that time.
    fn tell_deadline(&mut self, left: Duration) {
        let kill_in = left.saturating_sub(GUARD_MARGIN + left / SLEW);
        let is_wanted = self.limits.on_lost != OnLost::Ignore;
        self.guard.kill_at(is_wanted.then(|| boot_time() + kill_in));
    }

    /// Prints why the command has to end, and what happens to it.
    fn report(&self, cause: Cause, measure: &str) {
        let name = self.lease.name();
        let reason = match cause {
            Cause::Loss => "cannot be renewed",
            Cause::MaxHold => "has been held for long enough",
            Cause::Unguarded => "has no guard",
            Cause::Broken => "was broken",
        };
        self.output.note(format!("{name} {reason}: {measure} the command"));
    }

    fn ask(&mut self, cause: Cause) {
        self.report(cause, "ending");
        self.asked = None;
        self.end_for(cause);
        self.job.signal(Signal::TERM);
        // A stopped command could not handle the signal.
        self.job.signal(Signal::CONT);
    }

    /// Records why the command has to end, unless a reason is already recorded.
    fn end_for(&mut self, cause: Cause) {
        if self.asked.is_none() {
            self.asked = Some((cause, Instant::now()));
            self.cut = Some(cause);
        }
    }

    /// Performs the actions that are due. Returns the time until the next action.
    fn act(&mut self) -> Duration {
        if self.killed {
            // Nothing is due until the command ends.
            return Duration::from_secs(3600);
        }
        let now = Instant::now();
        if self.stop_by.is_some_and(|by| by <= now) {
            self.stop_by = None;
            self.job.signal(Signal::STOP);
        }
        let held = now.duration_since(self.since);
        let left = self.left(now);
        self.tell_deadline(left);
        if self.asked.take_if(|(cause, _)| self.limits.is_withdrawn(*cause, left)).is_some() {
            self.output.note(format!("{} was renewed: the command may go on", self.lease.name()));
        }
        let asked = self.asked.map(|(cause, at)| (cause, now.duration_since(at)));
        let guarded = self.unguarded.map_or(left, |unguarded| unguarded.until.saturating_duration_since(now));
        let because = |cause| if cause == Cause::Loss && guarded < left { Cause::Unguarded } else { cause };
        match self.limits.measure(left.min(guarded), held, asked) {
            Measure::Leave(rest) => {
                let rest = self.stop_by.map_or(rest, |by| rest.min(by.duration_since(now)));
                if self.guard.id().is_none() { rest.min(LOOK / 4) } else { rest }
            }
            Measure::Ask(cause) => {
                self.ask(because(cause));
                Duration::ZERO
            }
            Measure::Kill(cause) => {
                // Without an earlier report, this process stood still until it was too late to ask.
                if self.asked.is_none() {
                    self.report(because(cause), "killing");
                }
                self.end_for(because(cause));
                self.killed = true;
                self.job.signal(Signal::KILL);
                Duration::ZERO
            }
        }
    }

    /// Stops the command before this process stops: the command must not run while nobody renews its lock.
    fn told_to_stop(&mut self) {
        if std::mem::take(&mut self.is_own_stop) {
            return;
        }
        // If there is no shell that would continue this process, only the command stops, and this process keeps the
        // lock.
        if self.terminal.as_ref().is_some_and(Terminal::has_shell) {
            self.stop_by = Some(Instant::now() + STOP_PATIENCE);
        }
        self.job.signal(Signal::TSTP);
    }

    /// Handles a stopped command. If the terminal stopped the command, this process stops as well, so that the shell
    /// sees a stopped job.
    fn stopped(&mut self, signal: i32) {
        let told_to = self.stop_by.take().is_some();
        let Some(terminal) = &self.terminal else { return };
        let group = self.job.pid;
        let wants_terminal = [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal);
        if wants_terminal && terminal.is_ours() {
            terminal.lend(group);
            return self.job.signal(Signal::CONT);
        }
        let is_lent = terminal.is_lent_to(group);
        if !(told_to || wants_terminal || is_lent) {
            return;
        }
        if !terminal.has_shell() {
            return self.job.signal(Signal::CONT);
        }
        terminal.take_back(group);
        self.is_own_stop = true;
        Terminal::stop();
        // Nobody renewed the lock while this process was stopped. If the stop was too long, the command must not
        // continue.
        if self.lease.validity() > MARGIN {
            terminal.lend(group);
            self.job.signal(Signal::CONT);
        }
    }

    /// Ends the processes that the command left behind in its group, because they would run without the lock.
    async fn end_the_rest(&mut self) {
        let begun = Instant::now();
        let mut rest = LEFT_LOOK_MIN;
        let mut is_asked = self.killed;
        loop {
            self.job.change(self.guard);
            self.keep_guarded();
            let left = self.left(Instant::now());
            self.tell_deadline(left);
            let so_far = begun.elapsed();
            let is_kill_due = so_far >= LEFT_PATIENCE + self.limits.grace || self.lease.validity() <= MARGIN;
            let is_due = self.killed || is_kill_due || so_far >= LEFT_PATIENCE;
            if !self.job.leader.group_has_members() || is_due && !self.job.leader.group_is_alive() {
                return;
            }
            if self.killed || is_kill_due {
                self.job.signal(Signal::KILL);
            } else if is_due && !is_asked {
                is_asked = true;
                self.output.note("the command has left processes behind: ending them before the lock is given back");
                self.job.signal(Signal::TERM);
                self.job.signal(Signal::CONT);
            }
            if so_far >= LEFT_PATIENCE + self.limits.grace + KILL_PATIENCE {
                return self.output.note("processes of the command were killed and are still there");
            }
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(LEFT_LOOK_MAX);
        }
    }
}
