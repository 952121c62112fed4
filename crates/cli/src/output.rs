//! Printing: data on stdout, everything else on stderr.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::table::cut_painted;

/// A colour or style of text: the parameters of a terminal's escape code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) &'static str);

impl Paint {
    pub(crate) const GOOD: Self = Self("32");
    pub(crate) const BAD: Self = Self("31");
    pub(crate) const WARN: Self = Self("33");
    pub(crate) const DIM: Self = Self("2");
    pub(crate) const BOLD: Self = Self("1");
}

/// Prints in the form that the user chose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Whether to print JSON.
    pub(crate) json: bool,
    /// Whether to print only errors and results.
    pub(crate) quiet: bool,
    /// Whether to print details.
    pub(crate) verbose: bool,
    /// Whether to use colours; `None` to use colours on a terminal only.
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

    /// Prints the error, if there is one, and if the output is verbose.
    pub(crate) fn detail_error<T, E: std::fmt::Display>(self, result: Result<T, E>) {
        if let Err(error) = result {
            self.detail(error);
        }
    }

    /// Prints one line of data. Succeeds also if the reader has closed the pipe.
    pub(crate) fn line(self, text: impl std::fmt::Display) -> Outcome {
        self.text(&format!("{text}\n")).map(|_| Exit::OK)
    }

    /// Prints a text. Returns false if the reader has closed the pipe, as `head` does.
    #[expect(clippy::unused_self, reason = "all printing goes through an output")]
    pub(crate) fn text(self, text: &str) -> Outcome<bool> {
        match write_stdout(text) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Failure::cannot("write")(error)),
        }
    }

    /// Prints one JSON object with the version of its schema.
    pub(crate) fn json(self, value: &impl Serialize) -> Outcome {
        self.line(json_text(value)?)
    }

    /// Prints the result of a command: a JSON object, or one line.
    pub(crate) fn result(self, json: &serde_json::Value, text: impl std::fmt::Display) -> Outcome {
        if self.json { self.json(json) } else { self.line(text) }
    }

    /// Colours a text for stdout.
    pub(crate) fn paint(self, paint: Paint, text: impl std::fmt::Display) -> String {
        self.paint_on(&io::stdout(), paint, text)
    }

    /// Colours a text for `stream`.
    pub(crate) fn paint_on(self, stream: &impl IsTerminal, paint: Paint, text: impl std::fmt::Display) -> String {
        let text = text.to_string();
        let is_colored = !text.is_empty() && self.color.unwrap_or_else(|| stream.is_terminal());
        if is_colored { format!("\u{1b}[{}m{text}\u{1b}[0m", paint.0) } else { text }
    }
}

/// Writes a text, and flushes.
pub(crate) fn write_stdout(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Serializes one JSON object with the version of its schema.
pub(crate) fn json_text(value: &impl Serialize) -> Outcome<String> {
    let mut json = serde_json::to_value(value).map_err(Failure::cannot("write JSON"))?;
    json["v"] = 1.into();
    Ok(json.to_string())
}

/// Asks the user at the terminal, and reads one line.
pub(crate) fn ask(question: impl std::fmt::Display) -> Outcome<String> {
    let mut answer = String::new();
    eprint!("quorlock: {question} ");
    let result = io::stderr().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    result.map_err(Failure::cannot("read the answer"))?;
    Ok(answer.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads all of stdin. `what` names the content for the error message.
pub(crate) fn read_stdin(what: &str) -> Outcome<String> {
    let text = io::read_to_string(io::stdin());
    text.map_err(|error| Failure::usage(format_args!("cannot read {what} from stdin: {error}")))
}

/// Lines on stderr that are redrawn in place. They are removed on drop.
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
        let columns = terminal_size(io::stderr()).0.max(20) - 1;
        let text = format!("{}{}", clear_code(self.lines), lines.map(|line| cut_painted(&line, columns)).join("\n"));
        self.lines = LINES;
        // A single write, so that other output cannot get between the lines.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for LiveText {
    fn drop(&mut self) {
        if self.lines > 0 {
            let _ = io::stderr().write_all(clear_code(self.lines).as_bytes());
        }
    }
}

/// Returns the escape codes that clear this many lines. They move the cursor from the last line to the beginning of the
/// first line, and clear everything below.
pub(crate) fn clear_code(lines: usize) -> String {
    let up = lines.saturating_sub(1);
    if up == 0 { "\r\u{1b}[J".into() } else { format!("\u{1b}[{up}A\r\u{1b}[J") }
}

/// Returns the number of columns and rows of a terminal, or defaults if the terminal does not report them.
pub(crate) fn terminal_size(terminal: impl AsFd) -> (usize, usize) {
    let (columns, rows) = tcgetwinsize(terminal).map_or((0, 0), |size| (size.ws_col, size.ws_row));
    let or_default = |count: u16, default| if count == 0 { default } else { usize::from(count) };
    (or_default(columns, 80), or_default(rows, 24))
}
