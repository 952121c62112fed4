//! Describes the events of a search as text.

use quorlock_core::node::roster::RosterCommand;

use super::world::World;
use crate::world::TraceLine;

impl World {
    /// Adds an event of a client to the trace.
    pub(super) fn trace_client(&mut self, client: usize, what: impl FnOnce() -> String) {
        if self.trace.is_some() {
            let generation = self.view(client).generation();
            let what = format!("{} (believes generation {generation})", what());
            self.add_to_trace(char::from(b'A' + client as u8).to_string(), what);
        }
    }

    pub(super) fn trace_server(&mut self, server: usize, what: &str) {
        self.add_to_trace(format!("n{}", server + 1), what.into());
    }

    pub(super) fn trace_time(&mut self) {
        self.add_to_trace(String::new(), "time passes".into());
    }

    /// Adds a command of a proposer, and the answer, to the trace.
    pub(super) fn trace_command(&mut self, client: usize, server: usize, command: &RosterCommand, accepted: bool) {
        self.trace_client(client, || {
            let what = match command {
                RosterCommand::Promise { promise, .. } => format!("asks for a promise for {}", promise.generation),
                RosterCommand::Accept(proposal) => format!("asks to accept {}", proposal.roster.generation),
                RosterCommand::Install(roster) => format!("installs {}", roster.generation),
                _ => "asks".into(),
            };
            format!("{what} on n{}: {}", server + 1, if accepted { "yes" } else { "no" })
        });
    }

    fn add_to_trace(&mut self, who: String, what: String) {
        let at = (self.time_step * self.setup.time_step_millis()) as f64;
        if let Some(trace) = &mut self.trace {
            trace.push(TraceLine { at, who, what });
        }
    }
}
