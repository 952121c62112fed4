//! Where things are printed: data on stdout, everything else on stderr.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::table::cut_painted;

/// What a text means, by which it is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Bad,
    Warn,
    Dim,
    Bold,
    /// One of the 256 colours of terminals.
    Color(u8),
}

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// One JSON object instead of text for people.
    pub(crate) json: bool,
    /// Nothing but errors and what was asked for.
    pub(crate) quiet: bool,
    /// More than the usual.
    pub(crate) verbose: bool,
    color: Option<bool>,
}

impl Output {
    /// `color` is `auto`, `always` or `never`; `NO_COLOR` stands behind it, and the terminal last.
    pub(crate) fn new(json: bool, quiet: bool, verbose: bool, color: &str) -> Self {
        let color = match color {
            "always" => Some(true),
            "never" => Some(false),
            _ if std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty()) => Some(false),
            _ => None,
        };
        Self { json, quiet, verbose, color }
    }

    /// Says something on the side, unless it is to be quiet.
    pub(crate) fn note(self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("quorlock: {text}");
        }
    }

    /// Says what only some want to know.
    pub(crate) fn detail(self, text: impl std::fmt::Display) {
        if self.verbose {
            self.note(text);
        }
    }

    /// Prints one line of data. That nobody reads any more is no error of ours.
    pub(crate) fn line(self, text: impl std::fmt::Display) -> Result<(), Failure> {
        self.text(&format!("{text}\n")).map(drop)
    }

    /// Prints this, and says whether anybody reads it: a reader that left, as `head` does, is no failure.
    #[expect(clippy::unused_self, reason = "printing is done through an output")]
    pub(crate) fn text(self, text: &str) -> Result<bool, Failure> {
        let mut stdout = io::stdout();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::cannot("write")(error)),
        }
    }

    /// Prints one JSON object, with the version of its shape.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(json_text(value)?)
    }

    /// Prints the result of a command: a JSON object, or one line.
    pub(crate) fn result(self, json: &serde_json::Value, text: impl std::fmt::Display) -> crate::Outcome {
        let printed = if self.json { self.json(json) } else { self.line(text) };
        printed.map(|()| Exit::OK)
    }

    /// Whether colours are wanted on stdout.
    pub(crate) fn is_colored(self) -> bool {
        self.color.unwrap_or_else(|| io::stdout().is_terminal())
    }

    /// A text for stdout, in its colour.
    pub(crate) fn paint(self, paint: Paint, text: impl std::fmt::Display) -> String {
        painted(self.is_colored(), paint, &text.to_string())
    }

    /// A text for stderr, in its colour.
    pub(crate) fn paint_note(self, paint: Paint, text: impl std::fmt::Display) -> String {
        painted(self.color.unwrap_or_else(|| io::stderr().is_terminal()), paint, &text.to_string())
    }
}

/// One JSON object as text, with the version of its shape.
pub(crate) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let mut json = serde_json::to_value(value).map_err(Failure::cannot("write JSON"))?;
    json["v"] = 1.into();
    Ok(json.to_string())
}

/// Asks the person at the terminal, and reads one line.
pub(crate) fn ask(question: impl std::fmt::Display) -> Result<String, Failure> {
    let mut answer = String::new();
    eprint!("quorlock: {question} ");
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.map_err(Failure::cannot("ask"))?;
    Ok(answer.trim_end_matches(['\r', '\n']).to_owned())
}

/// Lines on stderr that are drawn again and again in the same place. Dropped, they are gone.
pub(crate) struct LiveText {
    /// The number of lines on the terminal.
    lines: usize,
}

impl LiveText {
    /// `None` without a terminal, and where nobody wants it.
    pub(crate) fn new(output: Output) -> Option<Self> {
        (!output.quiet && io::stderr().is_terminal()).then_some(Self { lines: 0 })
    }

    /// Replaces the lines. They are cut to the width of the terminal.
    pub(crate) fn draw<const LINES: usize>(&mut self, lines: [String; LINES]) {
        let columns = room(io::stderr()).0.max(20) - 1;
        let text = format!("{}{}", self.back(), lines.map(|line| cut_painted(&line, columns)).join("\n"));
        self.lines = LINES;
        // One write, so that nothing comes in between.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// From the last of the lines to the beginning of the first, and everything below away.
    fn back(&self) -> String {
        let up = self.lines.saturating_sub(1);
        if up == 0 { "\r\u{1b}[J".into() } else { format!("\u{1b}[{up}A\r\u{1b}[J") }
    }
}

impl Drop for LiveText {
    fn drop(&mut self) {
        if self.lines > 0 {
            let _ = io::stderr().write_all(self.back().as_bytes());
        }
    }
}

/// How many columns and rows a terminal has. One that does not know is taken for an ordinary one.
pub(crate) fn room(terminal: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    let known = |count: u16| Some(usize::from(count)).filter(|count| *count > 0);
    let columns = size.and_then(|size| known(size.ws_col)).unwrap_or(80);
    let rows = size.and_then(|size| known(size.ws_row)).unwrap_or(24);
    (columns, rows)
}

fn painted(colored: bool, paint: Paint, text: &str) -> String {
    if !colored || text.is_empty() {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => 32,
        Paint::Bad => 31,
        Paint::Warn => 33,
        Paint::Dim => 2,
        Paint::Bold => 1,
        Paint::Color(color) => return format!("\u{1b}[38;5;{color}m{text}\u{1b}[0m"),
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
