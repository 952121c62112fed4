//! Runs a command on a terminal that the test can read and type on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};

use quorlock_testkit::eventually;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// A running command and its terminal. Dropping it kills the command.
pub(crate) struct Pty {
    master: File,
    slave: OwnedFd,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Pty {
    /// Runs the command on a controlling terminal of 24 rows and 80 columns.
    pub(crate) fn spawn(command: &Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).unwrap();
        let tty = || slave.try_clone().unwrap();
        let mut setsid = Command::new("setsid");
        setsid
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => setsid.env(name, value),
                None => setsid.env_remove(name),
            };
        }
        let child = setsid.stdin(tty()).stdout(tty()).stderr(tty()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let master = File::from(master);
        let (mut reader, shared_screen) = (master.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shared_screen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self { master, slave, child, screen }
    }

    /// Returns the text on the screen.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until this text is on the screen.
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    /// Waits until the text on the screen satisfies a condition.
    pub(crate) fn wait_until(&self, description: &str, condition: impl Fn(&str) -> bool) {
        eventually(description, || condition(&self.text()));
    }

    /// Returns whether the terminal is restored: main screen, visible cursor, and echo.
    pub(crate) fn is_restored(&self) -> bool {
        let echoes = tcgetattr(&self.slave).unwrap().local_modes.contains(LocalModes::ECHO | LocalModes::ICANON);
        let parser = self.screen.lock().unwrap();
        echoes && !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
    }

    pub(crate) fn type_keys(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits for the command to end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // The command may have ended by itself. The hangup ends the processes that setsid has started.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
