//! `quorlock watch`: shows the locks that are held or waited for, as they change.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use clap::Args;
use quorlock::{Listing, LockView, ReadError};

use super::list::{ListArgs, remarks, table, views};
use crate::context::Context;
use crate::duration::{millis, parse_duration};
use crate::exit::{Exit, Failure, Outcome};
use crate::inspection::show_holder;
use crate::output::{Output, clear, json_text, room};
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

/// The shortest time between two requests.
const EVERY_MIN: Duration = Duration::from_millis(100);

pub(crate) async fn watch(context: &Context, args: &WatchArgs) -> Outcome {
    let filter = args.list.filter()?;
    if args.every < EVERY_MIN {
        return Err(Failure::usage(format_args!("--every must be at least {EVERY_MIN:?} (got {:?})", args.every)));
    }
    let mut signals = Signals::listen()?;
    let output = context.output;
    let is_drawn = std::io::stdout().is_terminal() && !output.json;
    let mut view = View { output, is_drawn, lines: 0, known: BTreeMap::new(), said: Vec::new() };
    let following = async {
        let client = context.connect().await?;
        let mut is_read = view.show(&client.list(&filter).await?)?;
        while is_read {
            tokio::time::sleep(args.every).await;
            is_read = match client.list(&filter).await {
                Ok(listing) => view.show(&listing)?,
                Err(error) => view.miss(&error)?,
            };
        }
        Ok(Exit::OK)
    };
    tokio::select! {
        done = following => done,
        signal = signals.next_fatal() => Ok(Exit::signal(signal.as_raw())),
    }
}

/// The state of the display.
struct View {
    output: Output,
    is_drawn: bool,
    /// The number of lines on the terminal, including the line of the cursor.
    lines: usize,
    known: BTreeMap<String, LockView>,
    /// The remarks that were last printed.
    said: Vec<String>,
}

/// Returns whether two views of a lock are equal, apart from durations that change as time passes.
fn is_same(one: &LockView, other: &LockView) -> bool {
    let state = |lock: &LockView| (lock.held, lock.holder.clone(), lock.fence, lock.waiting);
    state(one) == state(other)
}

impl View {
    /// Shows a listing. Returns whether the output is still read.
    fn show(&mut self, listing: &Listing) -> Outcome<bool> {
        let (locks, remarks) = (views(listing), remarks(listing));
        if self.is_drawn {
            let mut lines = table(self.output, &locks).lines(self.output);
            lines.extend(remarks);
            return self.draw(lines);
        }
        self.say(remarks);
        let mut is_read = true;
        let mut gone = std::mem::take(&mut self.known);
        for lock in locks {
            match gone.remove(&lock.name) {
                None => is_read &= self.tell("held", &lock)?,
                Some(before) if !is_same(&before, &lock) => is_read &= self.tell("changed", &lock)?,
                Some(_) => {}
            }
            self.known.insert(lock.name.clone(), lock);
        }
        for name in gone.into_keys() {
            is_read &= self.tell("free", &LockView { name, ..LockView::default() })?;
        }
        Ok(is_read)
    }

    /// Reports that the nodes could not be searched.
    fn miss(&mut self, error: &ReadError) -> Outcome<bool> {
        if self.is_drawn {
            return self.draw(vec![one_line(&error.to_string())]);
        }
        self.say(vec![error.to_string()]);
        Ok(true)
    }

    fn tell(&self, event: &str, lock: &LockView) -> Outcome<bool> {
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

    /// Prints the remarks that are new.
    fn say(&mut self, remarks: Vec<String>) {
        for remark in remarks.iter().filter(|remark| !self.said.contains(remark)) {
            self.output.note(remark);
        }
        self.said = remarks;
    }

    /// Replaces the lines on the terminal, as far as there is room.
    fn draw(&mut self, mut lines: Vec<String>) -> Outcome<bool> {
        let (columns, rows) = room(std::io::stdout());
        let rows = rows.max(4);
        if lines.len() >= rows {
            let hidden = lines.len() + 2 - rows;
            lines.truncate(rows - 2);
            lines.push(format!(".. and {hidden} more"));
        }
        // If the terminal wrapped a line, the count of lines would be wrong.
        let cut: Vec<String> = lines.iter().map(|line| cut_painted(line, columns)).collect();
        let text = format!("{}{}\n", clear(self.lines), cut.join("\n"));
        // The cursor is on the line below the last line.
        self.lines = lines.len() + 1;
        self.output.text(&text)
    }
}
