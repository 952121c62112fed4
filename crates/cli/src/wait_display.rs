//! The display while waiting for a lock. On a terminal, it redraws two lines. Without a terminal, it prints a line
//! every 30 seconds, and for each new holder.

use std::io::stderr;
use std::time::{Duration, Instant, SystemTime};

use quorlock::{Client, Fence, Holder, NodeStats, Wait};
use tokio::sync::watch;

use crate::duration::show;
use crate::exit::silence_text;
use crate::output::{LiveText, Output, Paint};

/// The interval at which the spinner turns.
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which a line is printed without a terminal.
const PRINT_INTERVAL: Duration = Duration::from_secs(30);
/// If the nodes take longer than this to answer, the display mentions the delay.
const UNMENTIONED_DELAY_MAX: Duration = Duration::from_secs(1);
/// The shortest time between two inspections of the lock.
const INSPECT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// A lease that ends this much later than before was renewed. A smaller difference may be the delay of a reply.
const RENEWAL_MIN: Duration = Duration::from_millis(500);
const SPINNER: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Shows the progress of a wait, until it is dropped.
pub(crate) struct Display<'a> {
    output: Output,
    client: &'a Client,
    name: &'a str,
    /// The latest report of the client about the wait.
    waits: watch::Receiver<Option<Wait>>,
    started: Instant,
    /// The time of the latest inspection of the lock, or of the latest report about the wait.
    updated: Instant,
    held_since: Option<SystemTime>,
    /// The end of the holder's lease, if the holder does not renew the lease after `updated`.
    lease_end: Option<Instant>,
    /// Whether a renewal of the holder's lease was seen.
    is_renewed: bool,
}

impl<'a> Display<'a> {
    pub(crate) fn new(output: Output, client: &'a Client, name: &'a str, waits: watch::Receiver<Option<Wait>>) -> Self {
        let (now, held_since, lease_end) = (Instant::now(), None, None);
        Self { output, client, name, waits, started: now, updated: now, held_since, lease_end, is_renewed: false }
    }

    /// Draws or prints the progress. Never returns.
    pub(crate) async fn run(mut self) -> std::convert::Infallible {
        if self.output.quiet || self.output.json {
            return std::future::pending().await;
        }
        let mut live = LiveText::new(self.output);
        let mut shown_wait: Option<Wait> = None;
        let mut printed_at: Option<Instant> = None;
        loop {
            let pause = match (&live, printed_at) {
                (Some(_), _) => SPINNER_INTERVAL,
                (None, Some(at)) => PRINT_INTERVAL.saturating_sub(at.elapsed()),
                (None, None) => UNMENTIONED_DELAY_MAX,
            };
            let is_reported = matches!(tokio::time::timeout(pause, self.waits.changed()).await, Ok(Ok(())));
            let (is_reported, wait) = {
                let wait = self.waits.borrow_and_update();
                // The report may have come just after the timeout.
                (is_reported || wait.has_changed(), wait.clone())
            };
            let is_new_holder = holder_of(shown_wait.as_ref()) != holder_of(wait.as_ref());
            if is_new_holder {
                (self.held_since, self.lease_end, self.is_renewed) = (None, None, false);
            }
            if let Some(wait) = wait.as_ref().filter(|_| is_reported) {
                self.set_lease_end(wait.remaining);
            }
            if wait.is_some() && (is_new_holder || self.is_inspection_due()) {
                self.inspect().await;
            }
            if wait.is_none() && self.started.elapsed() < UNMENTIONED_DELAY_MAX {
                continue;
            }
            let (first, second) = match &wait {
                Some(wait) => (format!("{}, {}", self.name, self.holder_text(wait)), self.wait_text(wait)),
                None => (self.nodes_text(), format!("waited {}", show(self.started.elapsed()))),
            };
            if let Some(live) = &mut live {
                let turn = self.started.elapsed().as_millis() / SPINNER_INTERVAL.as_millis();
                let spinner = SPINNER[turn as usize % SPINNER.len()];
                let second = self.output.paint_on(&stderr(), Paint::DIM, format_args!("  {second}"));
                live.draw([format!("{spinner} {first}"), second]);
            } else if is_new_holder || printed_at.is_none_or(|at| at.elapsed() >= PRINT_INTERVAL) {
                printed_at = Some(Instant::now());
                let text = if wait.is_some() { format!("waiting for {first}; {second}") } else { first };
                self.output.note(text);
            }
            shown_wait = wait;
        }
    }

    /// Records the remaining time of the holder's lease.
    fn set_lease_end(&mut self, remaining: Option<Duration>) {
        let now = Instant::now();
        let lease_end = remaining.and_then(|remaining| now.checked_add(remaining));
        self.is_renewed |= self.lease_end.zip(lease_end).is_some_and(|(old, new)| new > old + RENEWAL_MIN);
        (self.updated, self.lease_end) = (now, lease_end);
    }

    /// Returns whether half of the lease has passed since the latest update. A client reports no renewals of the
    /// holder, so without inspections the display would count down to zero although the lease is renewed.
    fn is_inspection_due(&self) -> bool {
        let half = self.lease_end.map(|end| end.saturating_duration_since(self.updated) / 2);
        half.is_some_and(|half| self.updated.elapsed() >= half.max(INSPECT_INTERVAL_MIN))
    }

    /// Asks the nodes since when the lock has been held, and when the holder's lease ends.
    async fn inspect(&mut self) {
        // If too few nodes answer, keep what is known.
        self.updated = Instant::now();
        if let Some((held_since, remaining)) = inspect_hold(self.client, self.name).await {
            self.held_since = held_since;
            self.set_lease_end(remaining);
        }
    }

    /// Describes the holder, and how long it has held the lock.
    fn holder_text(&self, wait: &Wait) -> String {
        let by = wait.holder.as_ref().map_or_else(String::new, |holder| format!(" by {holder}"));
        let held_for = self.held_since.and_then(|since| since.elapsed().ok());
        let held_for = held_for.map_or_else(String::new, |held_for| format!(" for {}", show(held_for)));
        format!("held{by}{held_for}")
    }

    /// Describes the rest of the holder's lease, the position in the queue, and how long this process has waited.
    fn wait_text(&self, wait: &Wait) -> String {
        let left = self.lease_end.map(|end| end.saturating_duration_since(Instant::now()));
        let lease = match left {
            Some(left) if !left.is_zero() => {
                let renewed = if self.is_renewed { ", which it renews" } else { "" };
                format!("{} left of its lease{renewed}; ", show(left))
            }
            _ => String::new(),
        };
        let position = wait.position.map_or_else(String::new, |position| {
            format!("you are {} of {}, ", ordinal(position), wait.waiting.max(position))
        });
        format!("{lease}{position}waited {}", show(self.started.elapsed()))
    }

    /// Describes the nodes that cause the delay.
    fn nodes_text(&self) -> String {
        let describe =
            |node: NodeStats| Some(format!("{} {}{}", node.node, node.trouble?, silence_text(node.silent_for)));
        let troubled: Vec<String> = self.client.node_stats().into_iter().filter_map(describe).collect();
        let why = if troubled.is_empty() {
            "the nodes have not decided yet".to_owned()
        } else {
            format!("no quorum yet; {}", troubled.join("; "))
        };
        format!("waiting for {}: {why}", self.name)
    }
}

/// Returns since when the lock has been held, and how long its lease lasts unless it is renewed, according to the
/// nodes. Returns `None` if too few nodes answer.
pub(crate) async fn inspect_hold(client: &Client, name: &str) -> Option<(Option<SystemTime>, Option<Duration>)> {
    let inspection = client.inspect(name).await.ok()?;
    let reports = inspection.nodes.iter().filter_map(|(_, report)| report.as_ref().ok());
    let held: Vec<_> = reports.filter_map(|report| Some((report.since_micros, report.held.as_ref()?))).collect();
    let since_micros = held.iter().map(|(since_micros, _)| *since_micros).max().filter(|micros| *micros > 0);
    let held_since = since_micros.and_then(|micros| SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros)));
    Some((held_since, held.iter().filter_map(|(_, held)| held.remaining).max()))
}

/// Identifies the holder. Another lease of the same process is another holder.
fn holder_of(wait: Option<&Wait>) -> Option<(Option<Holder>, Fence)> {
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
    fn ordinals_end_as_in_english() {
        let ordinals =
            [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")];
        for (number, text) in ordinals {
            assert_eq!(ordinal(number), text);
        }
    }
}
