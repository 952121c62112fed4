//! A PostgreSQL server for a test, if PostgreSQL is installed. Its data and its Unix socket are in a temporary folder.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The id of the user that runs the server if the test runs as root, because PostgreSQL refuses to run as root.
const NOBODY_USER_ID: u32 = 65_534;

/// A running server. Dropping it stops the server.
pub(crate) struct Postgres {
    /// The folder with the programs of PostgreSQL.
    program_folder: PathBuf,
    /// The folder of the data and the socket.
    folder: TempDir,
    /// The id of the user that runs all programs. `None` if it is the user of the test.
    user: Option<u32>,
}

impl Postgres {
    /// Starts a server. Returns `None` if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let program_folder = find_program_folder()?;
        let folder = TempDir::with_prefix("quorlock-pg-").expect("a temporary folder can be created");
        let is_root = folder.path().metadata().expect("the folder exists").uid() == 0;
        let user = is_root.then_some(NOBODY_USER_ID);
        if user.is_some() {
            chown(folder.path(), user, user).expect("root can change the owner of a folder");
        }
        let database = Self { program_folder, folder, user };
        let data = database.data();
        database.run_program(
            "initdb",
            &["-D", &data, "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        );
        let log = format!("{data}/log");
        let socket = format!("-F -k {} -c listen_addresses=", database.folder.path().display());
        database.run_program("pg_ctl", &["-D", &data, "-l", &log, "-w", "-t", "120", "-o", &socket, "start"]);
        Some(database)
    }

    /// Runs these statements, and returns their output.
    pub(crate) fn run(&self, sql: &str) -> String {
        let socket = self.folder.path().to_string_lossy().into_owned();
        let arguments = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", &socket, "-U", "tester", "-d", "postgres"];
        let mut all_arguments = arguments.to_vec();
        let statements: Vec<&str> = sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()).collect();
        all_arguments.extend(statements.iter().flat_map(|statement| ["-c", statement]));
        String::from_utf8_lossy(&self.run_program("psql", &all_arguments).stdout).into_owned()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").to_string_lossy().into_owned()
    }

    /// Runs a program of PostgreSQL, which must succeed.
    fn run_program(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program, arguments).output().expect("the program is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {errors} {}", String::from_utf8_lossy(&output.stdout));
        output
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let program = self.program_folder.join(program);
        let mut command = match self.user {
            Some(user) => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={user}"))
                    .arg(format!("--regid={user}"))
                    .arg("--clear-groups")
                    .arg(program);
                command
            }
            None => Command::new(program),
        };
        command.args(arguments).current_dir(self.folder.path()).env("LC_ALL", "C");
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.command("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]).output();
    }
}

/// Finds the folder with the programs of PostgreSQL. Debian has a folder for each version, which is not in the path.
fn find_program_folder() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_all =
        |folder: &Path| ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|name| folder.join(name).exists());
    debian.chain(std::env::split_paths(&path)).find(|folder| has_all(folder))
}
