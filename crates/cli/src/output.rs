//! Printing: data on stdout, everything else on stderr.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;

use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::table::cut_painted;

/// The meaning of a text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Bad,
    Warn,
    Dim,
    Bold,
    /// One of the 256 colours of a terminal.
    Color(u8),
}

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Print JSON.
    pub(crate) json: bool,
    /// Print only errors and results.
    pub(crate) quiet: bool,
    /// Print details.
    pub(crate) verbose: bool,
    color: Option<bool>,
}

impl Output {
    /// Returns an output. `color` is `auto`, `always` or `never`; `auto` follows `NO_COLOR`, and then the terminal.
    pub(crate) fn new(json: bool, quiet: bool, verbose: bool, color: &str) -> Self {
        let color = match color {
            "always" => Some(true),
            "never" => Some(false),
            _ if std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty()) => Some(false),
            _ => None,
        };
        Self { json, quiet, verbose, color }
    }

    /// Prints a note on stderr, unless the output is quiet.
    pub(crate) fn note(self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("quorlock: {text}");
        }
    }

    /// Prints a detail on stderr, if the output is verbose.
    pub(crate) fn detail(self, text: impl std::fmt::Display) {
        if self.verbose {
            self.note(text);
        }
    }

    /// Prints one line of data. A reader that has left is not an error.
    pub(crate) fn line(self, text: impl std::fmt::Display) -> Result<(), Failure> {
        self.text(&format!("{text}\n")).map(drop)
    }

    /// Prints a text. Returns whether anybody still reads: a reader that has left, such as `head`, is not an error.
    #[expect(clippy::unused_self, reason = "printing is done through an output")]
    pub(crate) fn text(self, text: &str) -> Result<bool, Failure> {
        let mut stdout = io::stdout();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::cannot("write")(error)),
        }
    }

    /// Prints one JSON object, with its schema version.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(json_text(value)?)
    }

    /// Prints the result of a command: a JSON object, or one line.
    pub(crate) fn result(self, json: &serde_json::Value, text: impl std::fmt::Display) -> crate::Outcome {
        let printed = if self.json { self.json(json) } else { self.line(text) };
        printed.map(|()| Exit::OK)
    }

    /// Returns whether stdout is coloured.
    pub(crate) fn is_colored(self) -> bool {
        self.color.unwrap_or_else(|| io::stdout().is_terminal())
    }

    /// Colours a text for stdout.
    pub(crate) fn paint(self, paint: Paint, text: impl std::fmt::Display) -> String {
        painted(self.is_colored(), paint, &text.to_string())
    }

    /// Colours a text for stderr.
    pub(crate) fn paint_note(self, paint: Paint, text: impl std::fmt::Display) -> String {
        painted(self.color.unwrap_or_else(|| io::stderr().is_terminal()), paint, &text.to_string())
    }
}

/// Serializes one JSON object, with its schema version.
pub(crate) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    let mut json = serde_json::to_value(value).map_err(Failure::cannot("write JSON"))?;
    json["v"] = 1.into();
    Ok(json.to_string())
}

/// Asks the user at the terminal, and reads one line.
pub(crate) fn ask(question: impl std::fmt::Display) -> Result<String, Failure> {
    let mut answer = String::new();
    eprint!("quorlock: {question} ");
    let read = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.map_err(Failure::cannot("ask"))?;
    Ok(answer.trim_end_matches(['\r', '\n']).to_owned())
}

/// Lines on stderr that are redrawn in place. Dropping this removes them.
pub(crate) struct LiveText {
    /// The number of lines on the terminal.
    lines: usize,
}

impl LiveText {
    /// Returns `None` without a terminal, and if the output is quiet.
    pub(crate) fn new(output: Output) -> Option<Self> {
        (!output.quiet && io::stderr().is_terminal()).then_some(Self { lines: 0 })
    }

    /// Replaces the lines, cut to the width of the terminal.
    pub(crate) fn draw<const LINES: usize>(&mut self, lines: [String; LINES]) {
        let columns = room(io::stderr()).0.max(20) - 1;
        let text = format!("{}{}", self.back(), lines.map(|line| cut_painted(&line, columns)).join("\n"));
        self.lines = LINES;
        // A single write, so that no other output comes in between.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Returns the codes that move from the last line to the beginning of the first, and clear everything below.
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

/// Returns the columns and rows of a terminal, with defaults if the terminal does not know them.
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
