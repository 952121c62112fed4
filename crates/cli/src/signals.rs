//! The signals that this process handles.

use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::exit::{Failure, Outcome};

/// The signals that are passed on to the command, or end a wait.
const PASSED_ON_SIGNALS: [Signal; 7] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH];
/// The additional signals to handle while a command runs. SIGCHLD: the command has ended or stopped. SIGTSTP: this
/// process is asked to stop, and must stop the command first.
pub(crate) const SIGNALS_WHILE_RUNNING: [Signal; 2] = [Signal::CHILD, Signal::TSTP];

/// The listeners for signals. Signals that were ignored when this process started, as under `nohup`, stay ignored, both
/// by this process and by the command.
pub(crate) struct Signals {
    listeners: Vec<(Signal, Listener)>,
    /// The signals that were ignored when this process started, one bit each.
    ignored: u64,
}

impl Signals {
    /// Listens for the signals that would end this process.
    pub(crate) fn listen() -> Outcome<Self> {
        let mut signals = Self { listeners: Vec::with_capacity(9), ignored: ignored_signals() };
        signals.listen_for(&PASSED_ON_SIGNALS)?;
        Ok(signals)
    }

    /// Also listens for these signals.
    pub(crate) fn listen_for(&mut self, added: &[Signal]) -> Outcome<()> {
        for number in added.iter().filter(|number| self.ignored >> (number.as_raw() - 1) & 1 == 0) {
            let listener =
                signal(SignalKind::from_raw(number.as_raw())).map_err(Failure::cannot("listen for signals"))?;
            self.listeners.push((*number, listener));
        }
        Ok(())
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let mut listeners = self.listeners.iter_mut();
            let next =
                listeners.find_map(|(number, listener)| listener.poll_recv(context).is_ready().then_some(*number));
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next signal that would have ended this process. Cancel safe.
    pub(crate) async fn next_fatal(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if PASSED_ON_SIGNALS.contains(&signal) && signal != Signal::WINCH {
                return signal;
            }
        }
    }
}

/// Returns the signals that were ignored when this process started, one bit each.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // SIGCHLD is never ignored, because then the exit code of the command would be lost.
    mask & !(1 << (Signal::CHILD.as_raw() - 1))
}
