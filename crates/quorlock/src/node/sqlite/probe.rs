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
    let system = standing.and_then(|there| statfs(there).ok()).map(|system| i128::from(system.f_type));
    FileFacts {
        path: path.display().to_string(),
        exists: found.is_some(),
        system: system.map(|magic| file::network(magic).or_else(|| local(magic)).unwrap_or("unknown").to_owned()),
        volatile: system.is_some_and(|magic| matches!(local(magic), Some("tmpfs" | "ramfs"))),
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

/// Returns the name of a local file system by its `statfs` magic number.
fn local(magic: i128) -> Option<&'static str> {
    Some(match magic as u32 {
        0xef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "Btrfs",
        0x2fc1_2fc1 => "ZFS",
        0xf2f5_2010 => "F2FS",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlayfs",
        0x6573_5546 => "FUSE",
        0x4d44 => "FAT",
        0x2011_bab0 => "exFAT",
        _ => return None,
    })
}
