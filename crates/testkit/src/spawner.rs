//! Starting processes that die with the test process.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread;

struct Job {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();

/// A command for `program`. If [`spawn`] starts it, the kernel kills it when the test process ends.
pub fn command_that_dies_with_parent(program: &OsStr) -> Command {
    let Some(setpriv) = find_in_path("setpriv") else {
        return Command::new(program);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// Starts a command from one thread that lives as long as the process.
///
/// The kernel sends the parent death signal when the thread ends that started the child. A server that the thread of a
/// test started would die with this thread.
///
/// # Errors
///
/// When the program cannot be started.
pub fn spawn(command: Command) -> io::Result<Child> {
    let (reply, answer) = mpsc::channel();
    SPAWNER
        .get_or_init(|| Mutex::new(start_spawner()))
        .lock()
        .expect("no thread panics while it holds the spawner")
        .send(Job { command, reply })
        .expect("the spawner thread never ends");
    answer.recv().expect("the spawner thread answers every job")
}

fn start_spawner() -> Sender<Job> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("testkit-spawner".into())
        .spawn(move || {
            for mut job in jobs {
                // A caller that has ended does not need the child's handle.
                let _ = job.reply.send(job.command.spawn());
            }
        })
        .expect("the system can start one more thread");
    sender
}

pub(crate) fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
