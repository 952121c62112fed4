//! Examines the file for `quorlock doctor`, but does not create a missing file.

use std::path::Path;

use rustix::fs::{Access, access, statfs, statvfs};

use super::{SqliteNode, file};
use crate::node::Trouble;
use crate::node::probe::{self, FileFacts, Plan, Probe};

/// Examines the file and, if it exists, its contents.
pub(super) async fn examine(node: &SqliteNode, plan: &Plan) -> Probe {
    let facts = read_facts(&node.path);
    let mut probe = if facts.exists {
        let mut probe = probe::by_session(node, plan).await;
        probe.server = Some(format!("SQLite {}", rusqlite::version()));
        probe
    } else {
        Probe { trouble: why_not_creatable(&node.path), ..Probe::default() }
    };
    // A session accepts only the journal mode WAL.
    let journal = probe.standing.is_some().then_some("wal");
    probe.file = Some(FileFacts { journal, ..facts });
    probe
}

fn read_facts(path: &Path) -> FileFacts {
    let metadata = std::fs::metadata(path).ok();
    // The file itself, or its nearest directory that exists.
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    let system = existing.and_then(|path| statfs(path).ok());
    let system = system.map(|system| file::file_system(i128::from(system.f_type)).0);
    FileFacts {
        path: path.display().to_string(),
        exists: metadata.is_some(),
        system,
        volatile: matches!(system, Some("tmpfs" | "ramfs")),
        size: metadata.map_or(0, |metadata| metadata.len()),
        free: existing.and_then(|path| statvfs(path).ok()).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize)),
        journal: None,
    }
}

/// Returns the reason why the missing file cannot be created, if there is one.
fn why_not_creatable(path: &Path) -> Option<Trouble> {
    let directory = path.ancestors().skip(1).find(|ancestor| ancestor.exists())?;
    let why = if directory.is_dir() {
        access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?.to_string()
    } else {
        "it is not a directory".into()
    };
    Some(Trouble::Unfit(format!("{}: no file can be created in it: {why}", directory.display())))
}
