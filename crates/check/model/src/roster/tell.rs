//! The events of a search, as text.

use quorlock_core::node::roster::RosterCommand;

use super::world::World;
use crate::world::Line;

impl World {
    /// Adds an event of a client.
    pub(super) fn say(&mut self, client: usize, what: impl FnOnce() -> String) {
        if self.story.is_some() {
            let generation = self.view(client).generation();
            let what = format!("{} (believes generation {generation})", what());
            self.add(char::from(b'A' + client as u8).to_string(), what);
        }
    }

    pub(super) fn say_of_server(&mut self, server: usize, what: &str) {
        self.add(format!("n{}", server + 1), what.into());
    }

    pub(super) fn say_of_time(&mut self) {
        self.add(String::new(), "time passes".into());
    }

    /// Adds a step of a proposal.
    pub(super) fn say_command(&mut self, client: usize, server: usize, command: &RosterCommand, accepted: bool) {
        self.say(client, || {
            let what = match command {
                RosterCommand::Promise { promise, .. } => format!("asks for a promise for {}", promise.generation),
                RosterCommand::Accept(proposal) => format!("asks to accept {}", proposal.roster.generation),
                RosterCommand::Install(roster) => format!("installs {}", roster.generation),
                _ => "asks".into(),
            };
            format!("{what} on n{}: {}", server + 1, if accepted { "yes" } else { "no" })
        });
    }

    fn add(&mut self, who: String, what: String) {
        let at = (self.tick * self.setup.tick_millis()) as f64;
        if let Some(story) = &mut self.story {
            story.push(Line { at, who, what });
        }
    }
}
