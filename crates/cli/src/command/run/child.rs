//! The command that runs under the lock.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Exit, Failure};

/// A running command. Without a terminal it leads a process group of its own, which is signalled as a whole.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: Option<Pid>,
    leads_group: bool,
}

impl Child {
    pub(crate) fn spawn(command: &[OsString], environment: [(&str, String); 5]) -> Result<Self, Failure> {
        let (program, arguments) = command.split_first().ok_or_else(|| Failure::Usage("no command".into()))?;
        let mut child = tokio::process::Command::new(program);
        child.args(arguments).envs(environment);
        // On a terminal the command has to stay in the foreground group, or it could not read.
        let leads_group = !std::io::stdin().is_terminal();
        if leads_group {
            child.process_group(0);
        }
        let process =
            child.spawn().map_err(|error| Failure::Spawn { command: program.to_string_lossy().into_owned(), error })?;
        let pid = process.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Self { process, pid, leads_group })
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> Result<Exit, Failure> {
        let status = self.process.wait().await;
        let status = status.map_err(|error| Failure::Internal(format!("cannot wait for the command: {error}")))?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => Exit(u8::try_from(code).unwrap_or(Exit::INTERNAL.0)),
            (None, Some(signal)) => Exit::signal(signal),
            (None, None) => Exit::INTERNAL,
        })
    }

    /// Sends a signal to the command, and to what it has started where that can be told.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        // It may have ended in this moment: then there is nobody to tell.
        let _ = if self.leads_group {
            rustix::process::kill_process_group(pid, signal)
        } else {
            rustix::process::kill_process(pid, signal)
        };
    }

    /// Passes on a signal that was sent to us. What a terminal sends, the command has got by itself.
    pub(crate) fn pass_on(&self, number: i32) {
        let from_terminal = !self.leads_group && [2, 3].contains(&number);
        if let Some(signal) = Signal::from_named_raw(number).filter(|_| !from_terminal) {
            self.signal(signal);
        }
    }

    /// Ends it for sure, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.process.wait().await;
    }
}

/// The signals that are passed on, or end the waiting.
pub(crate) struct Interrupts {
    signals: Vec<(i32, tokio::signal::unix::Signal)>,
}

impl Interrupts {
    pub(crate) fn listen() -> std::io::Result<Self> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let signals = kinds.into_iter().map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        Ok(Self { signals: signals.collect::<std::io::Result<_>>()? })
    }

    /// The number of the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.signals {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The next one that would have ended us.
    pub(crate) async fn next_fatal(&mut self) -> i32 {
        loop {
            let number = self.next().await;
            if ![SignalKind::user_defined1(), SignalKind::user_defined2()]
                .map(|kind| kind.as_raw_value())
                .contains(&number)
            {
                return number;
            }
        }
    }
}
