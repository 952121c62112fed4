//! `quorlock watch`: what is held or waited for, as it changes.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use clap::Args;
use quorlock::{Client, Filter, HolderView, Listing, LockView, ReadError};
use serde::Serialize;

use super::list::{FilterArgs, looks, remarks, table};
use crate::context::Context;
use crate::duration::{millis, parse_duration};
use crate::exit::{Exit, Failure};
use crate::inspection::Look as _;
use crate::output::{Output, room};
use crate::signals::Signals;
use crate::table::{cut_painted, one_line};

/// Show the locks that are held or waited for, as they change, until Ctrl-C.
///
/// On a terminal the table is drawn anew in its place. Elsewhere, and with --json, every change is a line.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  130/143 interrupted   69 no quorum at the start

Example:
  quorlock watch 'invoices/*'")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// How often to look.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    every: Duration,
}

/// The shortest time between two looks.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Looks again and again until it is interrupted.
pub(crate) async fn watch(context: &Context, args: &WatchArgs) -> crate::Outcome {
    let filter = args.filter.filter()?;
    if args.every < EVERY_MIN {
        return Err(Failure::Usage(format!("--every {:?}: at least {EVERY_MIN:?}", args.every)));
    }
    let mut signals = Signals::listen().map_err(|error| Failure::Internal(format!("no signals: {error}")))?;
    let mut view = View::new(context.output);
    let looking = async {
        let client = context.connect().await?;
        look_on(&client, &filter, args.every, &mut view).await
    };
    tokio::select! {
        done = looking => done.map(|()| Exit::OK),
        signal = signals.next_fatal() => Ok(Exit::signal(signal.as_raw())),
    }
}

/// Looks on, until nobody reads any more.
async fn look_on(client: &Client, filter: &Filter, every: Duration, view: &mut View) -> Result<(), Failure> {
    let mut is_read = view.show(&client.list(filter).await?)?;
    while is_read {
        tokio::time::sleep(every).await;
        is_read = match client.list(filter).await {
            Ok(listing) => view.show(&listing)?,
            Err(error) => view.miss(&error)?,
        };
    }
    Ok(())
}

/// What has been shown.
struct View {
    output: Output,
    is_drawn: bool,
    /// How many lines stand on the terminal.
    lines: usize,
    known: BTreeMap<String, State>,
    /// What was last said on the side.
    said: Vec<String>,
}

/// What makes a change; time that passes does not.
#[derive(Clone, PartialEq, Eq)]
struct State {
    held: bool,
    holder: Option<HolderView>,
    fence: Option<u64>,
    waiting: u32,
}

impl State {
    fn of(look: &LockView) -> Self {
        let LockView { held, holder, fence, waiting, .. } = look.clone();
        Self { held, holder, fence, waiting }
    }
}

#[derive(Serialize)]
struct Change<'a> {
    at_ms: u64,
    /// `held`, `changed` or `free`.
    event: &'static str,
    #[serde(flatten)]
    look: &'a LockView,
}

impl View {
    fn new(output: Output) -> Self {
        let is_drawn = std::io::stdout().is_terminal() && !output.json;
        Self { output, is_drawn, lines: 0, known: BTreeMap::new(), said: Vec::new() }
    }

    /// Whether anybody reads it.
    fn show(&mut self, listing: &Listing) -> Result<bool, Failure> {
        let (looks, remarks) = (looks(listing), remarks(listing));
        if self.is_drawn {
            let mut lines = table(self.output, &looks).lines(self.output);
            lines.extend(remarks);
            return self.draw(lines);
        }
        self.say(remarks);
        let mut is_read = true;
        let mut gone = std::mem::take(&mut self.known);
        for look in &looks {
            let state = State::of(look);
            let before = gone.remove(&look.name);
            if before.as_ref() != Some(&state) {
                is_read &= self.tell(if before.is_none() { "held" } else { "changed" }, look)?;
            }
            self.known.insert(look.name.clone(), state);
        }
        for name in gone.into_keys() {
            is_read &= self.tell("free", &LockView { name, ..LockView::default() })?;
        }
        Ok(is_read)
    }

    /// The nodes could not be looked through this time.
    fn miss(&mut self, error: &ReadError) -> Result<bool, Failure> {
        if self.is_drawn {
            return self.draw(vec![one_line(&error.to_string())]);
        }
        self.say(vec![error.to_string()]);
        Ok(true)
    }

    fn tell(&self, event: &'static str, look: &LockView) -> Result<bool, Failure> {
        if self.output.json {
            let at_ms = SystemTime::UNIX_EPOCH.elapsed().map(millis).unwrap_or_default();
            return self.output.text(&format!("{}\n", self.output.json_text(&Change { at_ms, event, look })?));
        }
        let name = one_line(&look.name);
        let fence = look.fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
        let waiting = if look.waiting > 0 { format!(", {} waiting", look.waiting) } else { String::new() };
        self.output.text(&match event {
            "free" => format!("{name} is free\n"),
            _ if look.held => format!("{name} is held by {}{fence}{waiting}\n", look.who()),
            _ => format!("{name} is not held{waiting}\n"),
        })
    }

    /// Says what is new on the side.
    fn say(&mut self, remarks: Vec<String>) {
        for remark in remarks.iter().filter(|remark| !self.said.contains(remark)) {
            self.output.note(remark);
        }
        self.said = remarks;
    }

    /// Draws these lines in the place of the last ones, as far as there is room.
    fn draw(&mut self, mut lines: Vec<String>) -> Result<bool, Failure> {
        let (columns, rows) = room(std::io::stdout());
        let rows = rows.max(4);
        if lines.len() >= rows {
            let hidden = lines.len() + 2 - rows;
            lines.truncate(rows - 2);
            lines.push(format!(".. and {hidden} more"));
        }
        // A second row of a line that is too long would spoil the count.
        let cut: Vec<String> = lines.iter().map(|line| cut_painted(line, columns)).collect();
        let back = if self.lines == 0 { String::new() } else { format!("\u{1b}[{}A", self.lines) };
        let text = format!("{back}\r\u{1b}[J{}\n", cut.join("\n"));
        self.lines = lines.len();
        self.output.text(&text)
    }
}
