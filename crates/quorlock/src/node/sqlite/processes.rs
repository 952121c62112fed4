//! Lists the processes that keep a client's stored rows alive, and detects whether the processes of such a list are
//! dead.
//!
//! A process is identified by its id and its start time, which have a meaning only within one *realm*: one boot, one
//! pid namespace and one time namespace. If the death of a process cannot be proved, the process counts as alive, and
//! its rows stay until their ttl ends.

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
    /// The realm of this process; `None` if `/proc` is missing or shows another pid namespace.
    realm: Option<String>,
    /// The list that is stored with each of this client's rows: the realm, and then each process with its start time.
    /// Example: `REALM 17@90 -23@95` for the process 17 and the process group 23. `None` if there are no processes, or
    /// if it will be impossible to prove that all of them are dead. Clones share the list.
    list: Arc<Mutex<Option<String>>>,
}

impl Processes {
    /// Reads the processes `others` from `/proc`, and also this process if `with_own` is set.
    ///
    /// # Errors
    /// Returns the id of a process that does not exist.
    pub(crate) fn read(with_own: bool, others: &[u32]) -> Result<Self, u32> {
        let (realm, own) = (realm(), with_own.then(std::process::id));
        let list = realm.clone().filter(|_| with_own || !others.is_empty());
        let processes = Self { realm, list: Arc::new(Mutex::new(list)) };
        let mut pids = own.iter().chain(others);
        pids.try_for_each(|pid| processes.add(Companion::Process(*pid)))?;
        Ok(processes)
    }

    /// Adds a process, or the process group of a process. From now on, this process or group keeps alive every vote
    /// that this client gets or renews.
    ///
    /// # Errors
    /// Returns the id of a process that does not exist.
    pub(super) fn add(&self, companion: Companion) -> Result<(), u32> {
        let (pid, sign) = match companion {
            Companion::Process(pid) => (pid, ""),
            Companion::Group(pid) => (pid, GROUP_PREFIX),
        };
        let mut list = self.list.lock();
        match (list.as_mut(), process_state(pid)) {
            (_, ProcessState::Dead) => return Err(pid),
            (None, _) => {}
            (Some(list), ProcessState::Running { start }) => drop(write!(list, " {sign}{pid}@{start}")),
            // It will be impossible to prove the death of this process.
            (Some(_), ProcessState::Hidden) => *list = None,
        }
        Ok(())
    }

    /// Returns the list to store with each row.
    pub(super) fn list(&self) -> Option<String> {
        self.list.lock().clone()
    }

    /// Returns whether all processes of a stored list are provably dead, or `None` if the list is malformed.
    pub(super) fn are_dead(&self, list: &str) -> Option<bool> {
        are_dead(self.realm.as_deref(), list, process_state, may_group_run)
    }
}

/// The prefix of the id of a process group in a list: a minus sign, as in the arguments of `kill`.
const GROUP_PREFIX: &str = "-";

/// The state of a process, as far as the system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    /// The process does not exist or is a zombie.
    Dead,
    /// The process runs, and has this start time.
    Running { start: u64 },
    /// The process exists, but its start time cannot be read.
    Hidden,
}

fn are_dead(
    own_realm: Option<&str>,
    list: &str,
    process_state: impl Fn(u32) -> ProcessState,
    may_group_run: impl Fn(u32) -> bool,
) -> Option<bool> {
    let (realm, processes) = list.split_once(' ')?;
    let mut are_all_dead = own_realm == Some(realm);
    for process in processes.split(' ') {
        let (pid, start) = process.split_once('@')?;
        let group = pid.strip_prefix(GROUP_PREFIX);
        let (pid, start) = (group.unwrap_or(pid).parse().ok()?, start.parse::<u64>().ok()?);
        are_all_dead = are_all_dead
            && match process_state(pid) {
                // The members of a group may outlive the leader of the group.
                ProcessState::Dead => group.is_none() || !may_group_run(pid),
                // With another start time, another process has the id now. The kernel does not reuse an id while a
                // group with this id has members.
                ProcessState::Running { start: current } => current != start,
                ProcessState::Hidden => false,
            };
    }
    Some(are_all_dead)
}

fn process_state(pid: u32) -> ProcessState {
    // Do not rely on the listing of `/proc`: the `hidepid` mount option hides other users' processes.
    if !exists(pid) {
        return ProcessState::Dead;
    }
    match read_lossily(&format!("/proc/{pid}/stat")).ok().as_deref().map(parse_stat) {
        Some(Some(state)) => state,
        // The process may have ended since the first check.
        _ if !exists(pid) => ProcessState::Dead,
        _ => ProcessState::Hidden,
    }
}

/// Returns whether a process of this group may be running. Returns `false` only if the group has no members, or if
/// `/proc` shows all processes and each member of the group is a zombie.
fn may_group_run(group: u32) -> bool {
    let Some(id) = to_pid(group) else { return true };
    match test_kill_process_group(id) {
        Err(Errno::SRCH) => return false,
        // The members of the group belong to another user.
        Err(_) => return true,
        Ok(()) => {}
    }
    let mounts = read_lossily("/proc/self/mounts");
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let stats = pids.map(|pid| match read_lossily(&format!("/proc/{pid}/stat")) {
        // The process has ended since `/proc` was listed.
        Err(_) if !exists(pid) => None,
        stat => Some(stat.ok()),
    });
    mounts.map_or(true, |mounts| hides_processes(&mounts)) || has_running_member(group, stats.flatten())
}

/// Returns whether one of these `/proc/PID/stat` files shows a running member of the group, or could not be read.
fn has_running_member(group: u32, mut stats: impl Iterator<Item = Option<String>>) -> bool {
    let group_of = |stat: &str| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(2)?.parse().ok();
    stats.any(|stat| {
        stat.is_none_or(|stat| group_of(&stat) == Some(group) && parse_stat(&stat) != Some(ProcessState::Dead))
    })
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

/// Reads a file. The file may contain names of programs that are not UTF-8.
fn read_lossily(path: &str) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Returns whether a process with this id exists. An id that no process can have counts as existing.
fn exists(pid: u32) -> bool {
    to_pid(pid).is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Parses `/proc/PID/stat`. The program name is in parentheses and may itself contain parentheses and spaces.
fn parse_stat(text: &str) -> Option<ProcessState> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let (state, threads) = (*fields.first()?, fields.get(17)?.parse::<u64>().ok()?);
    let start = fields.get(19)?.parse().ok()?;
    // A process whose first thread has ended looks like a zombie, although other threads run.
    let is_dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some(if is_dead { ProcessState::Dead } else { ProcessState::Running { start } })
}

/// Returns the realm of this process, if `/proc` shows it.
fn realm() -> Option<String> {
    let boot = crate::platform::boot::current_id().ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if !shows_own_namespace(&status) {
        return None;
    }
    let namespace = |kind: &str| std::fs::read_link(Path::new("/proc/self/ns").join(kind));
    let pids = namespace("pid").ok()?;
    // `/proc` shows start times by the clock of the process that reads them. A kernel without time namespaces has a
    // single clock.
    let time = match namespace("time") {
        Ok(time) => time.into_os_string().into_string().ok()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "time:one".into(),
        Err(_) => return None,
    };
    Some(format!("{},{},{time}", boot, pids.to_str()?)).filter(|realm| !realm.contains(' '))
}

/// Returns whether `/proc` belongs to the pid namespace of this process. In a `/proc` of an outer namespace, `NSpid`
/// lists several ids: one for each nested namespace.
fn shows_own_namespace(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Processes {
        pub(in crate::node::sqlite) fn fake(realm: &str, processes: Option<&str>) -> Self {
            let list = processes.map(|processes| format!("{realm} {processes}"));
            Self { realm: Some(realm.into()), list: Arc::new(Mutex::new(list)) }
        }
    }

    const OWN_REALM: Option<&str> = Some("boot,pid:[1],time:[1]");

    #[test]
    fn a_process_group_is_dead_only_if_every_process_can_be_read() {
        let stat =
            |state: &str, group: u32| Some(format!("9 (sh) {state} 1 {group} 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0"));
        let runs = |stats: &[Option<String>]| has_running_member(4, stats.iter().cloned());
        assert!(!runs(&[stat("Z", 4), stat("S", 5)]), "a zombie, and a process of another group");
        assert!(runs(&[stat("Z", 4), stat("S", 4)]));
        assert!(runs(&[stat("Z", 4), None]), "the unreadable process may be a member");
        let mounts = |options: &str| format!("tmpfs /tmp tmpfs rw 0 0\nproc /proc proc {options} 0 0\n");
        for (options, hides) in [("rw,nosuid", false), ("rw,hidepid=0", false), ("rw,hidepid=off", false)]
            .into_iter()
            .chain([("rw,hidepid=1", true), ("rw,hidepid=invisible", true), ("hidepid=ptraceable,rw", true)])
        {
            assert_eq!(hides_processes(&mounts(options)), hides, "{options}");
        }
    }

    #[test]
    fn the_processes_of_a_list_are_dead_only_if_each_of_them_is_dead() {
        let state = |pid| match pid {
            1 => ProcessState::Running { start: 10 },
            2 | 4 | 5 => ProcessState::Dead,
            3 => ProcessState::Hidden,
            _ => panic!("unexpected pid {pid}"),
        };
        let is_dead =
            |list: &str| are_dead(OWN_REALM, &format!("boot,pid:[1],time:[1] {list}"), state, |group| group == 4);
        assert_eq!(is_dead("2@5"), Some(true));
        assert_eq!(is_dead("1@10"), Some(false));
        assert_eq!(is_dead("1@9"), Some(true), "another process has the id now");
        assert_eq!(is_dead("3@10"), Some(false), "the state of the process is unknown");
        assert_eq!(is_dead("2@5 1@10"), Some(false));
        assert_eq!(is_dead("1@10 2@5"), Some(false));
        assert_eq!(is_dead("2@5 1@9"), Some(true));
        assert_eq!(is_dead("2@5 -1@10"), Some(false), "the leader of the group runs");
        assert_eq!(is_dead("2@5 -4@10"), Some(false), "a member of the group runs");
        assert_eq!(is_dead("2@5 -5@10"), Some(true));
        assert_eq!(is_dead("2@5 -1@9"), Some(true), "another process has the id now");
    }

    #[test]
    fn a_process_of_another_boot_or_namespace_never_counts_as_dead() {
        let all_dead = |_| ProcessState::Dead;
        for realm in ["other,pid:[1],time:[1]", "boot,pid:[2],time:[1]", "boot,pid:[1],time:[2]"] {
            assert_eq!(are_dead(OWN_REALM, &format!("{realm} 2@5"), all_dead, |_| false), Some(false), "{realm}");
        }
        let is_dead = are_dead(None, "boot,pid:[1],time:[1] 2@5", all_dead, |_| false);
        assert_eq!(is_dead, Some(false), "the realm of this process is unknown");
    }

    #[test]
    fn a_malformed_list_is_not_read() {
        for garbage in ["", "boot", "boot ", "boot 1", "boot @", "boot 1@", "boot x@1", "boot --1@1", "boot 1@1  2@2"] {
            assert_eq!(are_dead(OWN_REALM, garbage, |_| ProcessState::Dead, |_| false), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_stat_line_is_parsed_with_any_name_of_the_program() {
        let stat = |state: &str, threads: u32| {
            let zeros = "0 ".repeat(16);
            parse_stat(&format!("7 (a) Z 1) {state} {zeros}{threads} 0 4711 8 9\n"))
        };
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert_eq!(stat(state, 1), Some(ProcessState::Running { start: 4711 }), "{state}");
        }
        assert_eq!(stat("Z", 1), Some(ProcessState::Dead));
        assert_eq!(stat("Z", 2), Some(ProcessState::Running { start: 4711 }), "other threads run");
        assert_eq!(parse_stat("7 (a) R 1 2"), None);
    }

    #[test]
    fn a_proc_of_an_outer_pid_namespace_is_not_used() {
        assert!(shows_own_namespace("Name:\tx\nNSpid:\t12\nUid:\t0\n"));
        assert!(!shows_own_namespace("Name:\tx\nNSpid:\t4012\t12\n"));
        assert!(!shows_own_namespace("Name:\tx\n"), "a kernel without NSpid");
    }

    #[test]
    fn a_zombie_is_dead_and_this_process_is_not() {
        let own = Processes::read(true, &[]).unwrap();
        let Some(list) = own.list() else {
            eprintln!("skipped: /proc does not show the realm of this process");
            return;
        };
        assert_eq!(own.are_dead(&list), Some(false));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let childs_list = Processes::read(false, &[child.id()]).unwrap().list().unwrap();
        assert_eq!(own.are_dead(&childs_list), Some(false));
        child.kill().unwrap();
        quorlock_testkit::eventually("the child is a zombie", || own.are_dead(&childs_list) == Some(true));
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(own.are_dead(&childs_list), Some(true), "the child was reaped");
        assert_eq!(Processes::read(true, &[pid]).err(), Some(pid));
    }

    #[test]
    fn a_process_is_added_to_the_list_of_all_clones() {
        let own = Processes::read(true, &[]).unwrap();
        let Some(before) = own.list() else {
            eprintln!("skipped: /proc does not show the realm of this process");
            return;
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let clone = own.clone();
        own.add(Companion::Process(child.id())).unwrap();
        let after = clone.list().unwrap();
        assert!(after.starts_with(&format!("{before} {}@", child.id())), "{after}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(own.add(Companion::Process(child.id())), Err(child.id()));
        assert_eq!(own.list(), Some(after));
    }

    #[test]
    fn a_process_group_may_outlive_its_leader() {
        use std::os::unix::process::CommandExt;
        let own = Processes::read(false, &[std::process::id()]).unwrap();
        if own.list().is_none() {
            eprintln!("skipped: /proc does not show the realm of this process");
            return;
        }
        let script = ["-c", "sleep 60 > /dev/null & echo $!; exec cat"];
        let mut leader = std::process::Command::new("sh");
        leader.args(script).process_group(0).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let mut line = String::new();
        let stdout = std::io::BufReader::new(leader.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut { stdout }, &mut line).unwrap();
        assert!(!line.is_empty(), "the other member of the group has started");
        own.add(Companion::Group(leader.id())).unwrap();
        let list = own.list().unwrap();
        let (realm, group) = (list.split_once(' ').unwrap().0, list.rsplit_once(' ').unwrap().1);
        let is_dead = || own.are_dead(&format!("{realm} {group}")).unwrap();
        assert!(group.starts_with(&format!("-{}@", leader.id())) && !is_dead(), "{group}");
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(!is_dead(), "the other member of the group runs");
        rustix::process::kill_process_group(
            Pid::from_raw(leader.id().cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        quorlock_testkit::eventually("the group is dead", is_dead);
    }

    #[test]
    fn no_list_is_stored_without_processes_or_with_a_hidden_process() {
        assert_eq!(Processes::read(false, &[]).unwrap().list(), None);
        assert_eq!(Processes::read(true, &[u32::MAX]).unwrap().list(), None, "an id that no process can have");
    }
}
