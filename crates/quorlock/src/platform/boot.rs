//! The boot of this machine: the boot id, and the time since boot.
//!
//! All processes of a machine must store the same boot id and comparable times in a shared SQLite file. A container may
//! have a time namespace in which the boot-time clock has an offset; this module subtracts the offset. A container may
//! also have another file mounted over the kernel's file with the boot id. This module rejects such a file: another
//! boot id would look like a reboot and void all votes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use quorlock_core::node::NodeTime;
use rustix::fs::{AtFlags, PROC_SUPER_MAGIC, StatxAttributes, StatxFlags, fstatfs, statx};

use crate::platform::clock;

const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";
const OFFSETS_PATH: &str = "/proc/self/timens_offsets";
/// The time namespace of this process, and the time namespace of its future child processes.
const NAMESPACE_PATHS: [&str; 2] = ["/proc/self/ns/time", "/proc/self/ns/time_for_children"];

/// The current boot. The value stays valid while the process has several threads: such a process cannot change its time
/// namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: String,
    /// The boot-time clock of this process minus the boot-time clock of the initial time namespace.
    offset_nanos: i128,
}

impl Boot {
    /// Reads the boot from `/proc`.
    pub(crate) fn read() -> Result<Self, String> {
        Ok(Self { id: current_id()?, offset_nanos: read_offset_nanos()? })
    }

    /// Returns the current time by the wall clock, and by the boot-time clock of the initial time namespace.
    pub(crate) fn time(&self) -> NodeTime {
        let life_millis = millis_since_boot(clock::boot_nanos(), self.offset_nanos);
        NodeTime { wall_micros: clock::wall_micros(), life_millis }
    }
}

/// Reads the kernel's id of the current boot.
pub(crate) fn current_id() -> Result<String, String> {
    read_id(Path::new(BOOT_ID_PATH))
}

/// Returns an identifier of this process's clocks: two processes with the same identifier read the same clocks.
///
/// The kernel reuses the numbers of time namespaces, so the identifier includes the offsets of the namespace.
pub(crate) fn clock_identity() -> Result<String, String> {
    let boot = Boot::read()?;
    let Ok(namespace) = std::fs::read_link(NAMESPACE_PATHS[0]) else { return Ok(format!("{} none", boot.id)) };
    let offsets = read_proc(Path::new(OFFSETS_PATH))?;
    let offsets: Vec<&str> = offsets.split_whitespace().collect();
    Ok(format!("{} {} {}", boot.id, namespace.display(), offsets.join(",")))
}

/// Converts a reading of this process's boot-time clock to milliseconds in the initial time namespace.
fn millis_since_boot(boot_nanos: u64, offset_nanos: i128) -> u64 {
    u64::try_from((i128::from(boot_nanos) - offset_nanos) / 1_000_000).unwrap_or_default()
}

fn read_id(path: &Path) -> Result<String, String> {
    let text = read_proc(path)?;
    match text.trim() {
        "" => Err(error_at(path, "the file is empty, but should contain the boot id")),
        id => Ok(id.into()),
    }
}

/// Reads the offset of this process's boot-time clock: zero in the initial time namespace.
fn read_offset_nanos() -> Result<i128, String> {
    let path = Path::new(OFFSETS_PATH);
    let [own, children] = NAMESPACE_PATHS.map(std::fs::read_link);
    match (own, children) {
        // The kernel has no time namespaces. Reading `/proc/self/status` confirms that `/proc` is usable and shows this
        // process.
        (Err(error), _) if error.kind() == ErrorKind::NotFound && !path.exists() => {
            read_proc(Path::new("/proc/self/status")).map(|_| 0)
        }
        (Err(error), _) | (_, Err(error)) => Err(read_error(Path::new(NAMESPACE_PATHS[0]), &error)),
        // The kernel shows only the offsets of the child processes' namespace, which differs from ours.
        (Ok(own), Ok(children)) if own != children => {
            Err(error_at(path, "this process and its children have different time namespaces: use unshare --fork"))
        }
        (Ok(_), Ok(_)) => {
            parse_offset(&read_proc(path)?).ok_or_else(|| error_at(path, "no offset of the boot-time clock found"))
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

/// Reads a file of `/proc`. Fails if another file is mounted over that file.
fn read_proc(path: &Path) -> Result<String, String> {
    let mut file = File::open(path).map_err(|error| read_error(path, &error))?;
    let system = fstatfs(&file).map_err(|error| read_error(path, &error.into()))?;
    // Kernels before 5.8 do not report whether a file is a mount point.
    let is_mount = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
        .is_ok_and(|found| (found.stx_attributes & found.stx_attributes_mask).contains(StatxAttributes::MOUNT_ROOT));
    if is_mount || system.f_type != PROC_SUPER_MAGIC {
        return Err(error_at(
            path,
            "another file is mounted over this one, as some container managers do. A process in this container could \
             therefore acquire locks that are held outside of it: remove the mount, or use Redis nodes",
        ));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| read_error(path, &error))?;
    Ok(text)
}

fn read_error(path: &Path, error: &io::Error) -> String {
    error_at(path, &format!("cannot read the file: {error}. SQLite nodes need /proc"))
}

fn error_at(path: &Path, why: &str) -> String {
    format!("{}: {why}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NANOS: i128 = 3_600_000_000_000;

    #[test]
    fn the_offset_of_the_boot_time_clock_is_parsed() {
        let offsets = "monotonic           5         0\nboottime       100000 500000000\n";
        assert_eq!(parse_offset(offsets), Some(100_000_500_000_000));
        assert_eq!(parse_offset("boottime -2 999999999\n"), Some(-1_000_000_001));
        assert_eq!(parse_offset("1 5 0\n7 6 0\n"), Some(6_000_000_000));
        for garbage in ["", "monotonic 5 0\n", "boottime\n", "boottime 1\n", "boottime x 0\n", "boottime 1 -1\n"] {
            assert_eq!(parse_offset(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn processes_in_all_time_namespaces_compute_the_same_time_since_boot() {
        let initial = 7 * HOUR_NANOS as u64 + 999_999;
        for offset in [0, 100 * HOUR_NANOS, 1, -3 * HOUR_NANOS, -1, 999_999, 1_500_000] {
            let reading = (i128::from(initial) + offset) as u64;
            assert_eq!(millis_since_boot(reading, offset), 7 * 3_600_000, "{offset}");
        }
        assert_eq!(
            millis_since_boot(5, HOUR_NANOS),
            0,
            "the clock was read before the offset was set, so the time would be negative"
        );
    }

    #[test]
    fn the_boot_id_and_the_time_since_boot_are_read() {
        let boot = Boot::read().unwrap();
        assert_eq!(boot.id, std::fs::read_to_string(BOOT_ID_PATH).unwrap().trim());
        let (before, time, after) = (clock::boot_nanos(), boot.time(), clock::boot_nanos());
        assert!(millis_since_boot(before, boot.offset_nanos) <= time.life_millis);
        assert!(time.life_millis <= millis_since_boot(after, boot.offset_nanos));
    }

    #[test]
    fn a_boot_id_file_that_is_missing_or_not_from_the_kernel_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boot_id");
        let assert_error = |words: &str| match read_id(&path) {
            Err(why) => assert!(why.contains("boot_id: ") && why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        };
        assert_error("cannot read the file: No such file");
        std::fs::write(&path, "5f3c1c5e-8d4e-4a57-9b0c-3d1f2a6b7c8d\n").unwrap();
        assert_error("mounted over");
    }
}
