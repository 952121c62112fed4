//! Tracks the processes that keep a client's stored rows alive, and detects when they are provably dead.
//!
//! A process is identified by its id and start time. Both are meaningful only within one *realm*: one boot, one pid
//! namespace and one time namespace. Without proof of death a process counts as alive, and the ttl decides.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process, test_kill_process_group};

use crate::node::Companion;
use crate::platform::sync::Mutex;

/// The processes that keep one client's leases alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    /// `None` if `/proc` is missing or shows another pid namespace.
    realm: Option<String>,
    /// The list to store with each of this client's rows; `None` if the death of one of the processes could not be
    /// proved. Clones share it.
    behind: Arc<Mutex<Option<String>>>,
}

impl Processes {
    /// Reads the given processes from `/proc`, and this process too if `with_own` is set.
    ///
    /// # Errors
    /// Returns the id of a process that does not exist.
    pub(crate) fn read(with_own: bool, others: &[u32]) -> Result<Self, u32> {
        let (realm, own) = (realm(), with_own.then(std::process::id));
        let behind = realm.clone().filter(|_| with_own || !others.is_empty());
        let processes = Self { realm, behind: Arc::new(Mutex::new(behind)) };
        let mut pids = own.iter().chain(others);
        pids.try_for_each(|pid| processes.add(Companion::Process(*pid)))?;
        Ok(processes)
    }

    /// Adds a process, or the process group that it leads. The process then keeps alive every vote that this client
    /// gets or renews from now on.
    ///
    /// # Errors
    /// Returns the id of a process that does not exist.
    pub(super) fn add(&self, companion: Companion) -> Result<(), u32> {
        let (pid, sign) = match companion {
            Companion::Process(pid) => (pid, ""),
            Companion::Group(pid) => (pid, GROUP),
        };
        let mut behind = self.behind.lock();
        match (behind.as_mut(), look(pid)) {
            (_, Sight::Gone) => return Err(pid),
            (None, _) => {}
            (Some(list), Sight::There { start }) => drop(write!(list, " {sign}{pid}@{start}")),
            // Nothing could later prove that this process is dead.
            (Some(_), Sight::Hidden) => *behind = None,
        }
        Ok(())
    }

    /// Returns the list to store.
    pub(super) fn behind(&self) -> Option<String> {
        self.behind.lock().clone()
    }

    /// Returns whether all processes of a stored list are provably dead, or `None` if the list is malformed.
    pub(super) fn are_gone(&self, behind: &str) -> Option<bool> {
        are_gone(self.realm.as_deref(), behind, look, runs_in_group)
    }
}

/// The prefix of a process group's id.
const GROUP: &str = "-";

/// What the system shows for a process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// No such process, or a zombie.
    Gone,
    /// A process with this start time.
    There { start: u64 },
    /// A process whose start time cannot be read.
    Hidden,
}

fn are_gone(
    here: Option<&str>,
    behind: &str,
    look: impl Fn(u32) -> Sight,
    runs_in_group: impl Fn(u32) -> bool,
) -> Option<bool> {
    let (realm, list) = behind.split_once(' ')?;
    let mut all_gone = here == Some(realm);
    for process in list.split(' ') {
        let (pid, start) = process.split_once('@')?;
        let leader = pid.strip_prefix(GROUP);
        let (pid, start) = (leader.unwrap_or(pid).parse().ok()?, start.parse::<u64>().ok()?);
        all_gone = all_gone
            && match look(pid) {
                // The members of a group may outlive its leader.
                Sight::Gone => leader.is_none() || !runs_in_group(pid),
                // The id was reused by another process. The kernel does not reuse an id while a group with that id has
                // members.
                Sight::There { start: now } => now != start,
                Sight::Hidden => false,
            };
    }
    Some(all_gone)
}

fn look(pid: u32) -> Sight {
    // Do not rely on the listing of `/proc`: the `hidepid` mount option hides other users' processes.
    if !exists(pid) {
        return Sight::Gone;
    }
    match read_lossily(&format!("/proc/{pid}/stat")).ok().as_deref().map(read_stat) {
        Some(Some(sight)) => sight,
        // The process may have ended between the two checks.
        _ if !exists(pid) => Sight::Gone,
        _ => Sight::Hidden,
    }
}

/// Returns whether a process of this group may be running: `false` only if the group has no members, or `/proc` shows all
/// processes and each member is a zombie.
fn runs_in_group(group: u32) -> bool {
    let Some(id) = to_pid(group) else { return true };
    match test_kill_process_group(id) {
        Err(Errno::SRCH) => return false,
        // The group has members, and they belong to another user.
        Err(_) => return true,
        Ok(()) => {}
    }
    let mounts = read_lossily("/proc/self/mounts");
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let stats = pids.map(|pid| match read_lossily(&format!("/proc/{pid}/stat")) {
        // The process has ended since it was listed.
        Err(_) if !exists(pid) => None,
        stat => Some(stat.ok()),
    });
    mounts.map_or(true, |mounts| hides_processes(&mounts)) || shows_member(group, stats.flatten())
}

/// Returns whether one of these `/proc/PID/stat` files shows a running member of the group, or could not be read.
fn shows_member(group: u32, mut stats: impl Iterator<Item = Option<String>>) -> bool {
    let group_of = |stat: &str| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(2)?.parse().ok();
    stats.any(|stat| stat.is_none_or(|stat| group_of(&stat) == Some(group) && read_stat(&stat) != Some(Sight::Gone)))
}

/// Returns whether `/proc` is mounted so that it hides the processes of other users.
fn hides_processes(mounts: &str) -> bool {
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.any(|mount| {
        let is_proc = mount.get(1) == Some(&"/proc");
        let mut options = mount.get(3).copied().unwrap_or_default().split(',');
        is_proc
            && options.any(|option| option.strip_prefix("hidepid=").is_some_and(|mode| !["0", "off"].contains(&mode)))
    })
}

/// Reads a file that may contain names that are not UTF-8.
fn read_lossily(path: &str) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

fn exists(pid: u32) -> bool {
    to_pid(pid).is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Parses `/proc/PID/stat`. The program name is in parentheses and may itself contain parentheses and spaces.
fn read_stat(text: &str) -> Option<Sight> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let (state, threads) = (*fields.first()?, fields.get(17)?.parse::<u64>().ok()?);
    let start = fields.get(19)?.parse().ok()?;
    // If the first thread of a process has ended but others run, the process looks like a zombie.
    let is_over = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some(if is_over { Sight::Gone } else { Sight::There { start } })
}

/// Returns the realm of this process, if `/proc` shows it.
fn realm() -> Option<String> {
    let boot = crate::platform::boot::current_id().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if !is_seen_from_within(&status) {
        return None;
    }
    let namespace = |kind: &str| std::fs::read_link(Path::new("/proc/self/ns").join(kind));
    let pids = namespace("pid").ok()?;
    // `/proc` shows start times by the reader's clock. Kernels without time namespaces have a single clock.
    let time = match namespace("time") {
        Ok(time) => time.into_os_string().into_string().ok()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "time:one".into(),
        Err(_) => return None,
    };
    Some(format!("{},{},{time}", boot, pids.to_str()?)).filter(|realm| !realm.contains(' '))
}

/// Returns whether `/proc` shows our own pid namespace. If it does, `NSpid` lists one id, and not one for each nested
/// namespace.
fn is_seen_from_within(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Processes {
        pub(in crate::node::sqlite) fn made_up(realm: &str, behind: Option<&str>) -> Self {
            let behind = behind.map(|list| format!("{realm} {list}"));
            Self { realm: Some(realm.into()), behind: Arc::new(Mutex::new(behind)) }
        }
    }

    const HERE: Option<&str> = Some("boot,pid:[1],time:[1]");

    #[test]
    fn a_group_is_gone_only_if_every_process_can_be_seen() {
        let stat =
            |state: &str, group: u32| Some(format!("9 (sh) {state} 1 {group} 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0"));
        let shows = |stats: &[Option<String>]| shows_member(4, stats.iter().cloned());
        assert!(!shows(&[stat("Z", 4), stat("S", 5)]), "a zombie, and a process of another group");
        assert!(shows(&[stat("Z", 4), stat("S", 4)]));
        assert!(shows(&[stat("Z", 4), None]), "the unreadable process may be a member");
        let mounts = |options: &str| format!("tmpfs /tmp tmpfs rw 0 0\nproc /proc proc {options} 0 0\n");
        for (options, hides) in [("rw,nosuid", false), ("rw,hidepid=0", false), ("rw,hidepid=off", false)]
            .into_iter()
            .chain([("rw,hidepid=1", true), ("rw,hidepid=invisible", true), ("hidepid=ptraceable,rw", true)])
        {
            assert_eq!(hides_processes(&mounts(options)), hides, "{options}");
        }
    }

    #[test]
    fn every_process_of_the_list_has_to_be_gone() {
        let world = |pid| match pid {
            1 => Sight::There { start: 10 },
            2 | 4 | 5 => Sight::Gone,
            3 => Sight::Hidden,
            _ => panic!("nobody asked for {pid}"),
        };
        let gone = |list: &str| are_gone(HERE, &format!("boot,pid:[1],time:[1] {list}"), world, |group| group == 4);
        assert_eq!(gone("2@5"), Some(true));
        assert_eq!(gone("1@10"), Some(false));
        assert_eq!(gone("1@9"), Some(true), "the id is another one's now");
        assert_eq!(gone("3@10"), Some(false), "nothing is known of it");
        assert_eq!(gone("2@5 1@10"), Some(false));
        assert_eq!(gone("1@10 2@5"), Some(false));
        assert_eq!(gone("2@5 1@9"), Some(true));
        assert_eq!(gone("2@5 -1@10"), Some(false), "its leader lives");
        assert_eq!(gone("2@5 -4@10"), Some(false), "a member lives");
        assert_eq!(gone("2@5 -5@10"), Some(true));
        assert_eq!(gone("2@5 -1@9"), Some(true), "the id is another one's now");
    }

    #[test]
    fn nothing_is_said_of_another_boot_or_namespace() {
        let nobody = |_| Sight::Gone;
        for realm in ["other,pid:[1],time:[1]", "boot,pid:[2],time:[1]", "boot,pid:[1],time:[2]"] {
            assert_eq!(are_gone(HERE, &format!("{realm} 2@5"), nobody, |_| false), Some(false), "{realm}");
        }
        let gone = are_gone(None, "boot,pid:[1],time:[1] 2@5", nobody, |_| false);
        assert_eq!(gone, Some(false), "we do not know where we are");
    }

    #[test]
    fn what_was_never_written_is_not_read() {
        for garbage in ["", "boot", "boot ", "boot 1", "boot @", "boot 1@", "boot x@1", "boot --1@1", "boot 1@1  2@2"] {
            assert_eq!(are_gone(HERE, garbage, |_| Sight::Gone, |_| false), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_stat_line_is_read_whatever_the_programs_name() {
        let stat = |state: &str, threads: u32| {
            let zeros = "0 ".repeat(16);
            read_stat(&format!("7 (a) Z 1) {state} {zeros}{threads} 0 4711 8 9\n"))
        };
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert_eq!(stat(state, 1), Some(Sight::There { start: 4711 }), "{state}");
        }
        assert_eq!(stat("Z", 1), Some(Sight::Gone));
        assert_eq!(stat("Z", 2), Some(Sight::There { start: 4711 }), "other threads go on");
        assert_eq!(read_stat("7 (a) R 1 2"), None);
    }

    #[test]
    fn a_proc_of_an_outer_namespace_is_not_relied_on() {
        assert!(is_seen_from_within("Name:\tx\nNSpid:\t12\nUid:\t0\n"));
        assert!(!is_seen_from_within("Name:\tx\nNSpid:\t4012\t12\n"));
        assert!(!is_seen_from_within("Name:\tx\n"), "a kernel that does not say it");
    }

    #[test]
    fn a_zombie_is_gone_and_we_are_not() {
        let own = Processes::read(true, &[]).unwrap();
        let Some(behind) = own.behind() else {
            eprintln!("skipped: /proc does not tell here who we are");
            return;
        };
        assert_eq!(own.are_gone(&behind), Some(false));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let theirs = Processes::read(false, &[child.id()]).unwrap();
        assert_eq!(own.are_gone(&theirs.behind().unwrap()), Some(false));
        child.kill().unwrap();
        quorlock_testkit::eventually("a zombie", || own.are_gone(&theirs.behind().unwrap()) == Some(true));
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(own.are_gone(&theirs.behind().unwrap()), Some(true), "reaped");
        assert_eq!(Processes::read(true, &[pid]).err(), Some(pid));
    }

    #[test]
    fn a_process_can_be_added() {
        let own = Processes::read(true, &[]).unwrap();
        let Some(before) = own.behind() else {
            eprintln!("skipped: /proc does not tell here who we are");
            return;
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let clone = own.clone();
        own.add(Companion::Process(child.id())).unwrap();
        let after = clone.behind().unwrap();
        assert!(after.starts_with(&format!("{before} {}@", child.id())), "{after}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(own.add(Companion::Process(child.id())), Err(child.id()));
        assert_eq!(own.behind(), Some(after));
    }

    #[test]
    fn a_group_outlives_its_leader() {
        use std::os::unix::process::CommandExt;
        let own = Processes::read(false, &[std::process::id()]).unwrap();
        if own.behind().is_none() {
            eprintln!("skipped: /proc does not tell here who we are");
            return;
        }
        let script = ["-c", "sleep 60 > /dev/null & echo $!; exec cat"];
        let mut leader = std::process::Command::new("sh");
        leader.args(script).process_group(0).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let mut line = String::new();
        let said = std::io::BufReader::new(leader.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut { said }, &mut line).unwrap();
        assert!(!line.is_empty(), "the other member is there");
        own.add(Companion::Group(leader.id())).unwrap();
        let list = own.behind().unwrap();
        let (realm, group) = (list.split_once(' ').unwrap().0, list.rsplit_once(' ').unwrap().1);
        let is_gone = || own.are_gone(&format!("{realm} {group}")).unwrap();
        assert!(group.starts_with(&format!("-{}@", leader.id())) && !is_gone(), "{group}");
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(!is_gone(), "the other member lives");
        rustix::process::kill_process_group(
            Pid::from_raw(leader.id().cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        quorlock_testkit::eventually("the group is gone", is_gone);
    }

    #[test]
    fn nothing_is_stored_where_leases_outlive_everyone_or_somebody_cannot_be_seen() {
        assert_eq!(Processes::read(false, &[]).unwrap().behind(), None);
        assert_eq!(Processes::read(true, &[u32::MAX]).unwrap().behind(), None, "an id that no process can have");
    }
}
