//! The display while waiting for a lock. On a terminal, it redraws two lines; without a terminal, it prints a line now
//! and then.

use std::io::stderr;
use std::time::{Duration, Instant, SystemTime};

use quorlock::{Client, Fence, Holder, NodeStats, Wait};
use tokio::sync::watch;

use crate::duration::show;
use crate::exit::for_so_long;
use crate::output::{LiveText, Output, Paint};

/// The interval at which the spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// The interval at which a line is printed without a terminal.
const REPEAT: Duration = Duration::from_secs(30);
/// How long the nodes may take to answer before the display mentions the delay.
const PATIENCE: Duration = Duration::from_secs(1);
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Shows the progress of a wait, until it is dropped.
pub(crate) struct Display<'a> {
    output: Output,
    client: &'a Client,
    name: &'a str,
    news: watch::Receiver<Option<Wait>>,
    begun: Instant,
    /// The time of the latest progress.
    heard: Instant,
    since: Option<SystemTime>,
    is_renewing: bool,
}

impl<'a> Display<'a> {
    pub(crate) fn new(output: Output, client: &'a Client, name: &'a str, news: watch::Receiver<Option<Wait>>) -> Self {
        let now = Instant::now();
        Self { output, client, name, news, begun: now, heard: now, since: None, is_renewing: false }
    }

    /// Shows the progress. Never returns.
    pub(crate) async fn show(mut self) -> std::convert::Infallible {
        if self.output.quiet || self.output.json {
            return std::future::pending().await;
        }
        let mut live = LiveText::new(self.output);
        let mut seen: Option<Wait> = None;
        let mut printed: Option<Instant> = None;
        loop {
            let rest = match (&live, printed) {
                (Some(_), _) => TURN,
                (None, Some(at)) => REPEAT.saturating_sub(at.elapsed()),
                (None, None) => PATIENCE,
            };
            let is_changed = matches!(tokio::time::timeout(rest, self.news.changed()).await, Ok(Ok(())));
            let (is_news, wait) = {
                let news = self.news.borrow_and_update();
                // Progress may have been reported just after the timeout.
                (is_changed || news.has_changed(), news.clone())
            };
            let is_other = who(seen.as_ref()) != who(wait.as_ref());
            if is_news {
                self.update(seen.as_ref(), wait.as_ref(), is_other).await;
            }
            if wait.is_none() && self.begun.elapsed() < PATIENCE {
                continue;
            }
            let (first, second) = match &wait {
                Some(wait) => (format!("{}, {}", self.name, self.holding(wait)), self.standing(wait)),
                None => (self.silence(), format!("waited {}", show(self.begun.elapsed()))),
            };
            if let Some(live) = &mut live {
                let turn = self.begun.elapsed().as_millis() / TURN.as_millis();
                let spinner = SPINNER[turn as usize % SPINNER.len()];
                let second = self.output.paint_on(&stderr(), Paint::DIM, format_args!("  {second}"));
                live.draw([format!("{spinner} {first}"), second]);
            } else if is_other || printed.is_none_or(|at| at.elapsed() >= REPEAT) {
                printed = Some(Instant::now());
                let text = if wait.is_some() { format!("waiting for {first}; {second}") } else { first };
                self.output.note(text);
            }
            seen = wait;
        }
    }

    /// Records since when the current holder has held the lock, and whether it renews its lease.
    async fn update(&mut self, before: Option<&Wait>, wait: Option<&Wait>, is_other: bool) {
        let grew = before.zip(wait).is_some_and(|(before, wait)| {
            let counted_down = before.remaining.map(|left| left.saturating_sub(self.heard.elapsed()));
            // The remaining time grew by more than the delay of a reply can explain, so the holder has renewed.
            wait.remaining.zip(counted_down).is_some_and(|(now, then)| now > then + Duration::from_millis(500))
        });
        self.is_renewing = !is_other && (self.is_renewing || grew);
        self.heard = Instant::now();
        if is_other {
            self.since = held_since(self.client, self.name).await;
        }
    }

    /// Describes the holder, how long it has held the lock, and until when.
    fn holding(&self, wait: &Wait) -> String {
        let by = wait.holder.as_ref().map(|holder| format!(" by {holder}"));
        let held_for = self.since.and_then(|since| since.elapsed().ok()).map(|held| format!(" for {}", show(held)));
        let renewing = if self.is_renewing { " and renewing" } else { "" };
        let left = wait.remaining.map(|left| left.saturating_sub(self.heard.elapsed()));
        let left = left.map(|left| format!(", lease {}{renewing}", show(left)));
        [Some("held".to_owned()), by, held_for, left].into_iter().flatten().collect()
    }

    fn standing(&self, wait: &Wait) -> String {
        let waited = show(self.begun.elapsed());
        match wait.place {
            Some(place) => format!("you are {} of {}, waited {waited}", ordinal(place), wait.waiting.max(place)),
            None => format!("waited {waited}"),
        }
    }

    /// Describes the nodes that cause the delay.
    fn silence(&self) -> String {
        let describe =
            |node: NodeStats| Some(format!("{} {}{}", node.node, node.trouble?, for_so_long(node.silent_for)));
        let troubled: Vec<String> = self.client.node_stats().into_iter().filter_map(describe).collect();
        let why = if troubled.is_empty() {
            "the nodes have not decided yet".to_owned()
        } else {
            format!("no quorum yet; {}", troubled.join("; "))
        };
        format!("waiting for {}: {why}", self.name)
    }
}

/// Returns since when the name is held, according to the nodes.
pub(crate) async fn held_since(client: &Client, name: &str) -> Option<SystemTime> {
    let inspection = client.inspect(name).await.ok()?;
    let held =
        inspection.nodes.iter().filter_map(|(_, said)| said.as_ref().ok().filter(|report| report.held.is_some()));
    let since = held.map(|report| report.since_micros).max().filter(|micros| *micros > 0)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(since))
}

/// Identifies the holder. Another lease of the same process is another holder.
fn who(wait: Option<&Wait>) -> Option<(Option<Holder>, Fence)> {
    wait.map(|wait| (wait.holder.clone(), wait.fence))
}

/// Formats an ordinal: `1st`, `2nd`, `3rd`, `4th`, `11th`.
pub(crate) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ordinal_numbers() {
        let places =
            [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")];
        for (number, text) in places {
            assert_eq!(ordinal(number), text);
        }
    }
}
