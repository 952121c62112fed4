//! Examines the file for `quorlock doctor`. Does not create a missing file.

use std::path::Path;

use rustix::fs::{Access, access, statfs, statvfs};

use super::{SqliteNode, file};
use crate::node::Trouble;
use crate::node::probe::{self, FileFacts, Plan, Probe};

/// Examines the file and, if it exists, its contents.
pub(super) async fn examine(node: &SqliteNode, plan: &Plan) -> Probe {
    let facts = look(&node.path);
    let mut probe = if facts.exists {
        let mut probe = probe::by_session(node, plan).await;
        probe.server = Some(format!("SQLite {}", rusqlite::version()));
        probe
    } else {
        Probe { trouble: unmade(&node.path), ..Probe::default() }
    };
    // A session rejects every other journal mode.
    let journal = probe.standing.is_some().then_some("wal");
    probe.file = Some(FileFacts { journal, ..facts });
    probe
}

fn look(path: &Path) -> FileFacts {
    let found = std::fs::metadata(path).ok();
    let standing = path.ancestors().find(|ancestor| ancestor.exists());
    let system = standing.and_then(|there| statfs(there).ok());
    let system = system.map(|system| file::file_system(i128::from(system.f_type)).0);
    FileFacts {
        path: path.display().to_string(),
        exists: found.is_some(),
        system,
        volatile: matches!(system, Some("tmpfs" | "ramfs")),
        size: found.map_or(0, |found| found.len()),
        free: standing.and_then(|there| statvfs(there).ok()).map(|space| space.f_bavail.saturating_mul(space.f_frsize)),
        journal: None,
    }
}

/// Returns the reason why the file could not be created.
fn unmade(path: &Path) -> Option<Trouble> {
    let directory = path.ancestors().skip(1).find(|ancestor| ancestor.exists())?;
    let why = if directory.is_dir() {
        access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?.to_string()
    } else {
        "it is not a directory".into()
    };
    Some(Trouble::Unfit(format!("{}: nothing can be made in it: {why}", directory.display())))
}
