//! What came of a run, for programs: the result file and `--json`.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::exit::Exit;

/// What came of it. No lease id: whoever has it could release the lock.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    pub(super) name: String,
    /// `exclusive`, `shared` or `slots`.
    pub(super) kind: &'static str,
    /// `done`, `held`, `skipped`, `interrupted`, `lost`, `asked-to-end`, `max-hold`, `unguarded` or `failed`.
    pub(super) outcome: &'static str,
    pub(super) exit: u8,
    /// The signal that killed the command, or ended the waiting.
    pub(super) signal: Option<i32>,
    pub(super) fence: Option<u64>,
    pub(super) slot: Option<u32>,
    pub(super) waited_ms: u64,
    pub(super) held_ms: Option<u64>,
    /// Whether the lock was lost, or not provably held, during the run.
    pub(super) lost: bool,
    /// Why it is not `done`.
    pub(super) reason: Option<String>,
    /// A key at the terminal sent the signal, and more than this command is to hear of it.
    #[serde(skip)]
    pub(super) is_from_terminal: bool,
}

impl Report {
    pub(super) fn new(name: &str, kind: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            outcome: "failed",
            exit: Exit::INTERNAL.0,
            signal: None,
            fence: None,
            slot: None,
            waited_ms: 0,
            held_ms: None,
            lost: false,
            reason: None,
            is_from_terminal: false,
        }
    }

    /// Puts it into a file, as a whole: whoever reads it finds all of it, or what was there before.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let new = path.with_file_name(name);
        let written = self.write_new(&new).and_then(|()| std::fs::rename(&new, path));
        written.inspect_err(|_| drop(std::fs::remove_file(&new)))
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut file = std::fs::File::create(path)?;
        serde_json::to_writer(&mut file, &crate::output::Versioned::new(self))?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}
