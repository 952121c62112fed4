//! A running `quorlock serve`.

use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use quorlock_testkit::http::Caller;

use crate::common::User;

/// A service process, which is killed on drop.
pub(crate) struct Service {
    pub(crate) child: Child,
    caller: Caller,
    log: Arc<Mutex<String>>,
}

impl Service {
    /// Starts a service on the user's own file.
    pub(crate) fn start(user: &User) -> Self {
        Self::with_arguments(user, &[])
    }

    /// Starts a service with these arguments.
    pub(crate) fn with_arguments(user: &User, arguments: &[&str]) -> Self {
        let has_address = arguments.contains(&"--listen");
        let listen: &[&str] = if has_address { &[] } else { &["--listen", "127.0.0.1:0"] };
        Self::from_command(user.quorlock(&[&["serve"], listen, arguments].concat()))
    }

    /// Starts a service that may open only this many files.
    pub(crate) fn with_file_limit(user: &User, files: usize, arguments: &[&str]) -> Self {
        let serve = user.quorlock(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$@\""), "sh"]);
        command.arg(serve.get_program()).args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Self::from_command(command)
    }

    /// Starts a service. Its log is not read, except by the test.
    pub(crate) fn with_unread_log(user: &User, arguments: &[&str]) -> (Self, ChildStderr) {
        let command = user.quorlock(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        Self::spawn(command)
    }

    fn from_command(command: Command) -> Self {
        let (service, stderr) = Self::spawn(command);
        let log = Arc::clone(&service.log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = log.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        service
    }

    /// Starts the process, and waits until it prints its address.
    fn spawn(mut command: Command) -> (Self, ChildStderr) {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serving on ").unwrap_or_else(|| {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            panic!("the service printed {line:?}: {log}");
        });
        (Self { caller: Caller::new(address), child, log: Arc::default() }, stderr)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        crate::common::signal(self.child.id(), name);
    }
}

impl Deref for Service {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
