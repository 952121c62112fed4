//! Creates and checks the file before SQLite opens it. Rejects file systems on which file locks do not work.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, CWD, FileType, Mode, access, mknodat, statfs};
use rustix::io::Errno;

use crate::node::Trouble;

/// The smallest page size of SQLite.
const DATABASE_BYTES_MIN: u64 = 512;
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Creates the file and its directories if they are missing.
///
/// Never opens the file itself. POSIX locks belong to the process: closing any descriptor of the file would drop the
/// locks of every other session in this process.
pub(super) fn prepare(path: &Path) -> Result<(), Trouble> {
    let directory = directory(path);
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(directory)
        .map_err(|error| trouble(directory, "cannot create the directory", &error))?;
    reject_network_file_system(directory)?;
    match mknodat(CWD, path, FileType::RegularFile, FILE_MODE, 0) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(trouble(path, "cannot create the file", &error.into())),
    }
    reject_network_file_system(path)?;
    let metadata = std::fs::metadata(path).map_err(|error| trouble(path, "cannot inspect the file", &error))?;
    if !metadata.is_file() {
        return Err(unfit(path, "it is not a regular file"));
    }
    if (1..DATABASE_BYTES_MIN).contains(&metadata.len()) && !with_suffix(path, "-journal").exists() {
        // SQLite would treat such a file as empty.
        return Err(unfit(path, "it is not an SQLite database"));
    }
    if metadata.nlink() > 1 {
        // SQLite derives the name of the log from the name of the file, so each hard link would get its own log.
        return Err(unfit(path, "it has several names (hard links): remove all names except one"));
    }
    Ok(())
}

/// Returns whether the permissions do not allow this process to open the file or its log.
pub(super) fn is_forbidden(path: &Path) -> bool {
    let lacks = |path: &Path, needed| {
        matches!(access(path, needed), Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOENT | Errno::NOTDIR))
    };
    lacks(path, Access::READ_OK | Access::WRITE_OK) || lacks(directory(path), Access::WRITE_OK | Access::EXEC_OK)
}

/// Syncs the directory entry of the file and, where permitted, the entries of the directories above. Any of these
/// entries may be new.
pub(super) fn sync_directories(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()?;
    for ancestor in path.ancestors().skip(2) {
        // Ignore a failure: this process cannot have created a directory that it may not read.
        let _ = File::open(ancestor).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

/// Returns the size of the write-ahead log, or zero if there is no log.
pub(super) fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(with_suffix(path, "-wal")).map_or(0, |log| log.len())
}

/// Returns the path of a file that SQLite keeps beside the database.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn directory(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn reject_network_file_system(path: &Path) -> Result<(), Trouble> {
    let stat = statfs(path).map_err(|error| trouble(path, "cannot inspect the file system", &error.into()))?;
    let (name, true) = file_system(i128::from(stat.f_type)) else { return Ok(()) };
    let why = "where file locks and shared memory do not work: use a local file system";
    Err(unfit(path, &format!("it is on a network file system ({name}), {why}")))
}

/// Returns the name of the file system with this `statfs` magic number, and whether the file system is on a network. An
/// unknown file system counts as local.
pub(super) fn file_system(magic: i128) -> (&'static str, bool) {
    // The kernel's magic numbers have 32 bits; their sign depends on the architecture.
    match magic as u32 {
        0x6969 => ("NFS", true),
        0x517b => ("SMB", true),
        0xff53_4d42 => ("CIFS", true),
        0xfe53_4d42 => ("SMB2", true),
        0x5346_414f | 0x6b41_4653 => ("AFS", true),
        0x00c3_6400 => ("Ceph", true),
        0x0102_1997 => ("9P", true),
        0x0bd0_0bd0 => ("Lustre", true),
        0x4750_4653 => ("GPFS", true),
        0x7375_7245 => ("Coda", true),
        0xef53 => ("ext4", false),
        0x5846_5342 => ("XFS", false),
        0x9123_683e => ("Btrfs", false),
        0x2fc1_2fc1 => ("ZFS", false),
        0xf2f5_2010 => ("F2FS", false),
        0x0102_1994 => ("tmpfs", false),
        0x8584_58f6 => ("ramfs", false),
        0x794c_7630 => ("overlayfs", false),
        0x6573_5546 => ("FUSE", false),
        0x4d44 => ("FAT", false),
        0x2011_bab0 => ("exFAT", false),
        _ => ("unknown", false),
    }
}

fn unfit(path: &Path, why: &str) -> Trouble {
    Trouble::Unfit(format!("{}: {why}", path.display()))
}

/// Converts an error, depending on whether it is temporary or permanent.
fn trouble(path: &Path, what: &str, error: &io::Error) -> Trouble {
    use io::ErrorKind::{Interrupted, OutOfMemory, QuotaExceeded, ResourceBusy, StorageFull};
    let text = format!("{}: {what}: {error}", path.display());
    match error.kind() {
        Interrupted | OutOfMemory | QuotaExceeded | ResourceBusy | StorageFull => Trouble::Unreachable(text),
        _ if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Trouble::Unreachable(text),
        _ => Trouble::Unfit(text),
    }
}
