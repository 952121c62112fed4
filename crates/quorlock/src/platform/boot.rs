//! The boot of this machine: its id, and the boot-time clock of the initial time namespace.
//!
//! All processes of a machine must store the same boot id and comparable times. A container may have a time namespace
//! in which the boot-time clock has an offset; this module subtracts the offset. A container may also have another boot
//! id mounted over the kernel's. This module rejects such a boot id, because it would look like a reboot and void all
//! votes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use quorlock_core::node::NodeTime;
use rustix::fs::{AtFlags, PROC_SUPER_MAGIC, StatxAttributes, StatxFlags, fstatfs, statx};

use crate::platform::clock;

const ID: &str = "/proc/sys/kernel/random/boot_id";
const OFFSETS: &str = "/proc/self/timens_offsets";
/// The time namespace of this process, and that of its future children.
const NAMESPACES: [&str; 2] = ["/proc/self/ns/time", "/proc/self/ns/time_for_children"];

/// The current boot. This value stays valid as long as the process has several threads: such a process cannot change
/// its time namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: String,
    /// The nanoseconds by which this process's boot-time clock is ahead of the initial time namespace's.
    ahead: i128,
}

impl Boot {
    /// Reads the boot from `/proc`.
    pub(crate) fn read() -> Result<Self, String> {
        Ok(Self { id: id(Path::new(ID))?, ahead: ahead()? })
    }

    /// Returns the time by the wall clock, and the time since boot by the boot-time clock of the initial time
    /// namespace.
    pub(crate) fn time(&self) -> NodeTime {
        NodeTime { wall_micros: clock::wall_micros(), life_millis: initial_millis(clock::boot_nanos(), self.ahead) }
    }
}

/// Returns the kernel's id of this boot.
pub(crate) fn current_id() -> Result<String, String> {
    id(Path::new(ID))
}

/// Returns an identifier of this process's clocks: two processes with the same identifier read the same clocks. The
/// kernel reuses the numbers of time namespaces, so the identifier includes the namespace's offsets.
pub(crate) fn clocks() -> Result<String, String> {
    let boot = Boot::read()?;
    let Ok(namespace) = std::fs::read_link(NAMESPACES[0]) else { return Ok(format!("{} none", boot.id)) };
    let offsets = read_own(Path::new(OFFSETS))?;
    let offsets: Vec<&str> = offsets.split_whitespace().collect();
    Ok(format!("{} {} {}", boot.id, namespace.display(), offsets.join(",")))
}

fn initial_millis(boot_nanos: u64, ahead: i128) -> u64 {
    u64::try_from((i128::from(boot_nanos) - ahead) / 1_000_000).unwrap_or_default()
}

fn id(path: &Path) -> Result<String, String> {
    let text = read_own(path)?;
    match text.trim() {
        "" => Err(unfit(path, "the kernel does not tell its boot id")),
        id => Ok(id.into()),
    }
}

fn ahead() -> Result<i128, String> {
    let path = Path::new(OFFSETS);
    let [own, children] = NAMESPACES.map(std::fs::read_link);
    match (own, children) {
        // The kernel has no time namespaces. Reading `/proc/self/status` confirms that `/proc` is usable and shows this
        // process.
        (Err(error), _) if error.kind() == ErrorKind::NotFound && !path.exists() => {
            read_own(Path::new("/proc/self/status")).map(|_| 0)
        }
        (Err(error), _) | (_, Err(error)) => Err(unreadable(Path::new(NAMESPACES[0]), &error)),
        // The file holds the offsets of the children's namespace, which is not ours.
        (Ok(own), Ok(children)) if own != children => {
            Err(unfit(path, "this process has left its time namespace to its children; start it in the new one"))
        }
        (Ok(_), Ok(_)) => {
            parse_offset(&read_own(path)?).ok_or_else(|| unfit(path, "no offset of the boot-time clock is in it"))
        }
    }
}

/// Parses the offset of the boot-time clock, in nanoseconds, from `boottime SECONDS NANOSECONDS`.
fn parse_offset(text: &str) -> Option<i128> {
    text.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        // The first kernels with time namespaces wrote 7, the number of `CLOCK_BOOTTIME`.
        let is_boottime = matches!(fields.next()?, "boottime" | "7");
        let (seconds, nanos): (i64, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        is_boottime.then_some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
    })
}

/// Reads a file of `/proc`. Fails if something is mounted over it.
fn read_own(path: &Path) -> Result<String, String> {
    let mut file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let system = fstatfs(&file).map_err(|error| unreadable(path, &error.into()))?;
    // Kernels before 5.8 do not report whether a file is a mount point.
    let is_mount = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
        .is_ok_and(|found| (found.stx_attributes & found.stx_attributes_mask).contains(StatxAttributes::MOUNT_ROOT));
    if is_mount || system.f_type != PROC_SUPER_MAGIC {
        return Err(unfit(
            path,
            "another file is mounted over the kernel's, as container managers do. Processes outside would lose their locks \
             to those in here: unmount it, or use Redis nodes",
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| unreadable(path, &error))?;
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    unfit(path, &format!("cannot read it: {error}. SQLite nodes need /proc"))
}

fn unfit(path: &Path, why: &str) -> String {
    format!("{}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i128 = 3_600_000_000_000;

    #[test]
    fn the_offset_of_the_boot_time_clock_is_found() {
        let kernel = "monotonic           5         0\nboottime       100000 500000000\n";
        assert_eq!(parse_offset(kernel), Some(100_000_500_000_000));
        assert_eq!(parse_offset("boottime -2 999999999\n"), Some(-1_000_000_001));
        assert_eq!(parse_offset("1 5 0\n7 6 0\n"), Some(6_000_000_000));
        for garbage in ["", "monotonic 5 0\n", "boottime\n", "boottime 1\n", "boottime x 0\n", "boottime 1 -1\n"] {
            assert_eq!(parse_offset(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn all_time_namespaces_have_the_same_time() {
        let initial = 7 * HOUR as u64 + 999_999;
        for ahead in [0, 100 * HOUR, 1, -3 * HOUR, -1, 999_999, 1_500_000] {
            let theirs = (i128::from(initial) + ahead) as u64;
            assert_eq!(initial_millis(theirs, ahead), 7 * 3_600_000, "{ahead}");
        }
        assert_eq!(initial_millis(5, HOUR), 0, "a clock that was read before the offset was set");
    }

    #[test]
    fn this_boot_is_read() {
        let boot = Boot::read().unwrap();
        assert_eq!(boot.id, std::fs::read_to_string(ID).unwrap().trim());
        let (before, time, after) = (clock::boot_nanos(), boot.time(), clock::boot_nanos());
        assert!(initial_millis(before, boot.ahead) <= time.life_millis);
        assert!(time.life_millis <= initial_millis(after, boot.ahead));
    }

    #[test]
    fn a_boot_id_that_is_missing_or_not_of_procfs_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boot_id");
        let says = |words: &str| match id(&path) {
            Err(why) => assert!(why.contains("boot_id: ") && why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        says("cannot read it: No such file");
        std::fs::write(&path, "5f3c1c5e-8d4e-4a57-9b0c-3d1f2a6b7c8d\n").unwrap();
        says("mounted over");
    }
}
