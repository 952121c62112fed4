//! How far it is, in one line of a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, interval};

const BAR: usize = 30;
const FRAME: Duration = Duration::from_millis(100);

/// The bar on stderr; nothing where nobody looks. Dropped, the line is empty again.
pub(crate) struct Progress {
    shown: bool,
    began: Instant,
    whole: Duration,
}

impl Progress {
    /// For something that takes about this long.
    pub(crate) fn new(quiet: bool, whole: Duration) -> Self {
        Self { shown: !quiet && std::io::stderr().is_terminal(), began: Instant::now(), whole }
    }

    /// Does it, and shows how far all of it is.
    pub(crate) async fn during<T>(&self, title: &str, work: impl Future<Output = T>) -> T {
        let mut frames = interval(FRAME);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = frames.tick() => self.draw(title),
            }
        }
    }

    fn draw(&self, title: &str) {
        if self.shown {
            let line = bar(self.began.elapsed(), self.whole);
            print(&format!("\r{line}  {title}\x1b[K"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            print("\r\x1b[K");
        }
    }
}

/// `████████░░░░  7s left`.
fn bar(age: Duration, whole: Duration) -> String {
    let share = (age.as_secs_f64() / whole.as_secs_f64()).min(1.0);
    let full = (share * BAR as f64) as usize;
    let left = whole.saturating_sub(age).as_secs_f64().ceil();
    format!("{}{}  {left:.0}s left", "█".repeat(full), "░".repeat(BAR - full))
}

/// A terminal that is gone is nobody's loss.
fn print(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_stays_full() {
        let whole = Duration::from_secs(10);
        assert_eq!(bar(Duration::ZERO, whole), format!("{}  10s left", "░".repeat(BAR)));
        assert_eq!(bar(whole / 2, whole), format!("{}{}  5s left", "█".repeat(15), "░".repeat(15)));
        assert_eq!(bar(whole * 2, whole), format!("{}  0s left", "█".repeat(BAR)));
    }
}
