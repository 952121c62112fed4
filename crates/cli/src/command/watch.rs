//! `quorlock watch`: shows the locks that are held or waited for, as they change.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use clap::Args;
use quorlock::{Listing, LockView, ReadError};

use super::list::{ListArgs, lock_table, lock_views, remarks};
use crate::context::Context;
use crate::duration::{millis, parse_duration};
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::show_holder;
use crate::output::{Output, clear_code, json_text, terminal_size};
use crate::signals::Signals;
use crate::table::{cut_painted, one_line};

/// Show the locks that are held or waited for, as they change.
#[derive(Args, Debug)]
#[command(before_help = "\
Runs until Ctrl-C, and changes nothing. On a terminal the table is redrawn in place; elsewhere, and with --json, every \
change is a line.")]
#[command(after_help = "\
Exit codes:
  69 no quorum at the start   130, 143 interrupted

Example:
  quorlock watch 'invoices/*'")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    list: ListArgs,

    /// Ask the nodes this often.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    every: Duration,
}

/// The shortest time between two listings.
const EVERY_MIN: Duration = Duration::from_millis(100);

pub(crate) async fn watch(context: &Context, args: &WatchArgs) -> Outcome {
    let filter = args.list.filter()?;
    if args.every < EVERY_MIN {
        return Err(Failure::usage(format_args!("--every must be at least {EVERY_MIN:?} (got {:?})", args.every)));
    }
    let mut signals = Signals::listen()?;
    let output = context.output;
    let is_drawn = std::io::stdout().is_terminal() && !output.json;
    let mut view = View { output, is_drawn, lines: 0, locks: BTreeMap::new(), remarks: Vec::new() };
    let watching = async {
        let client = context.connect().await?;
        let mut has_reader = view.show(&client.list(&filter).await?)?;
        while has_reader {
            tokio::time::sleep(args.every).await;
            has_reader = match client.list(&filter).await {
                Ok(listing) => view.show(&listing)?,
                Err(error) => view.show_error(&error)?,
            };
        }
        Ok(Exit::OK)
    };
    tokio::select! {
        result = watching => result,
        signal = signals.next_fatal() => Ok(Exit::signal(signal.as_raw())),
    }
}

/// The state of the display.
struct View {
    output: Output,
    /// Whether a table is redrawn in place. If not, every change is a line.
    is_drawn: bool,
    /// The number of lines that the last drawing takes up, and the empty line of the cursor.
    lines: usize,
    /// The locks of the latest listing, by name.
    locks: BTreeMap<String, LockView>,
    /// The remarks on the latest listing.
    remarks: Vec<String>,
}

/// Returns whether the state of a lock has changed. Durations that change as time passes do not count.
fn has_changed(before: &LockView, lock: &LockView) -> bool {
    let state = |lock: &LockView| (lock.held, lock.holder.clone(), lock.fence, lock.waiting);
    state(before) != state(lock)
}

impl View {
    /// Shows a listing. Returns whether anybody still reads the output.
    fn show(&mut self, listing: &Listing) -> Outcome<bool> {
        let (locks, remarks) = (lock_views(listing), remarks(listing));
        if self.is_drawn {
            let mut lines = lock_table(self.output, &locks).lines(self.output);
            lines.extend(remarks);
            return self.draw(lines);
        }
        self.print_new_remarks(remarks);
        let mut has_reader = true;
        let mut before = std::mem::take(&mut self.locks);
        for lock in locks {
            match before.remove(&lock.name) {
                None => has_reader &= self.print_event("held", &lock)?,
                Some(before) if has_changed(&before, &lock) => has_reader &= self.print_event("changed", &lock)?,
                Some(_) => {}
            }
            self.locks.insert(lock.name.clone(), lock);
        }
        for name in before.into_keys() {
            has_reader &= self.print_event("free", &LockView { name, ..LockView::default() })?;
        }
        Ok(has_reader)
    }

    /// Shows why the nodes could not be searched. Returns whether anybody still reads the output.
    fn show_error(&mut self, error: &ReadError) -> Outcome<bool> {
        if self.is_drawn {
            return self.draw(vec![one_line(&error.to_string())]);
        }
        self.print_new_remarks(vec![error.to_string()]);
        Ok(true)
    }

    /// Prints a change of a lock: a JSON object, or a line. Returns whether anybody still reads the output.
    fn print_event(&self, event: &str, lock: &LockView) -> Outcome<bool> {
        if self.output.json {
            let mut change = serde_json::to_value(lock).map_err(Failure::cannot("write JSON"))?;
            change["at_ms"] = SystemTime::UNIX_EPOCH.elapsed().map(millis).unwrap_or_default().into();
            change["event"] = event.into();
            return self.output.text(&(json_text(&change)? + "\n"));
        }
        let name = one_line(&lock.name);
        let fence = lock.fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
        let waiting = if lock.waiting > 0 { format!(", {} waiting", lock.waiting) } else { String::new() };
        self.output.text(&match event {
            "free" => format!("{name} is free\n"),
            _ if lock.held => format!("{name} is held by {}{fence}{waiting}\n", show_holder(lock.holder.as_ref())),
            _ => format!("{name} is not held{waiting}\n"),
        })
    }

    /// Prints the remarks that did not apply to the listing before.
    fn print_new_remarks(&mut self, remarks: Vec<String>) {
        for remark in remarks.iter().filter(|remark| !self.remarks.contains(remark)) {
            self.output.note(remark);
        }
        self.remarks = remarks;
    }

    /// Replaces the lines on the terminal. Leaves out lines that do not fit. Returns whether anybody still reads the
    /// output.
    fn draw(&mut self, mut lines: Vec<String>) -> Outcome<bool> {
        let (columns, rows) = terminal_size(std::io::stdout());
        let rows = rows.max(4);
        if lines.len() >= rows {
            let hidden = lines.len() + 2 - rows;
            lines.truncate(rows - 2);
            lines.push(format!(".. and {hidden} more"));
        }
        // If the terminal wrapped a line, the count of lines would be wrong.
        let cut: Vec<String> = lines.iter().map(|line| cut_painted(line, columns)).collect();
        let text = format!("{}{}\n", clear_code(self.lines), cut.join("\n"));
        // The cursor is on the line below the last line.
        self.lines = lines.len() + 1;
        self.output.text(&text)
    }
}
