//! The result of a run as JSON, for the result file and the output of `--json`.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::json_text;

/// The result of a run. It does not contain the lease id: anyone who read the lease id could release the lock.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) name: String,
    /// `exclusive`, `shared` or `slots`.
    pub(super) kind: &'static str,
    /// `done`, `held`, `skipped`, `interrupted`, `lost`, `asked-to-end`, `max-hold`, `unguarded` or `failed`.
    pub(super) outcome: &'static str,
    pub(super) exit: u8,
    /// The signal that killed the command, or ended the wait.
    pub(super) signal: Option<i32>,
    pub(super) fence: Option<u64>,
    pub(super) slot: Option<u32>,
    pub(super) waited_ms: u64,
    pub(super) held_ms: Option<u64>,
    /// Whether the lock was lost, or not provably held, during the run.
    pub(super) lost: bool,
    /// Why the outcome is not `done`.
    pub(super) reason: Option<String>,
    /// Whether a key at the terminal sent the signal. If so, the other processes of our process group must also get the
    /// signal.
    #[serde(skip)]
    pub(super) is_from_terminal: bool,
}

impl Report {
    pub(super) fn new(name: &str, kind: &'static str) -> Self {
        Self { name: name.to_owned(), kind, outcome: "failed", exit: Exit::INTERNAL.0, ..Self::default() }
    }

    /// Writes the file atomically: a reader finds the old file or the whole new one.
    pub(super) fn write(&self, path: &Path) -> Outcome<()> {
        let text = json_text(self)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As with files of other programs, the umask decides who can read this file.
        let file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder);
        let written = file.and_then(|mut file| {
            writeln!(file, "{text}")?;
            file.as_file().sync_all()?;
            Ok(file.persist(path)?)
        });
        written.map(drop).map_err(|error| Failure::config(format_args!("cannot write {}: {error}", path.display())))
    }
}
