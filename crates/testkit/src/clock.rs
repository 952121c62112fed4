//! A wall clock that tests move, for any program that is not statically linked.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use tempfile::NamedTempFile;

const SHIM_SOURCE: &str = include_str!("clock_shim.c");

/// The wall clock of every process started with its [`envs`](Self::envs).
///
/// Clones move the same clock. Monotonic clocks are left alone.
#[derive(Debug, Clone)]
pub struct Clock {
    shim: PathBuf,
    control: Arc<Mutex<NamedTempFile>>,
}

impl Clock {
    /// A clock that shows the real time until it is moved.
    #[expect(clippy::new_without_default, reason = "it compiles and writes files")]
    pub fn new() -> Self {
        let control =
            NamedTempFile::with_prefix("quorlock-clock-").expect("the temporary folder takes the clock's control file");
        let clock = Self { shim: compiled_shim(), control: Arc::new(Mutex::new(control)) };
        clock.set_offset_micros(0);
        clock
    }

    /// Lets the clock run, `offset` microseconds ahead of the real time.
    pub fn set_offset_micros(&self, offset: i64) {
        self.write(offset << 1);
    }

    /// Stops the clock at `micros` microseconds after the epoch.
    pub fn freeze_at_micros(&self, micros: i64) {
        self.write(micros << 1 | 1);
    }

    /// The environment variables that put a process under this clock.
    ///
    /// The process must start while this clock or a clone of it lives.
    pub fn envs(&self) -> Vec<(String, String)> {
        let shim = text(&self.shim);
        let preload = match env::var("LD_PRELOAD") {
            Ok(others) if !others.is_empty() => format!("{shim}:{others}"),
            _ => shim,
        };
        let control = self.control.lock().expect("no writer panics");
        vec![("LD_PRELOAD".to_owned(), preload), ("QUORLOCK_CLOCK_FILE".to_owned(), text(control.path()))]
    }

    /// The shim says why the word is stored twice and in which order.
    fn write(&self, word: i64) {
        let control = self.control.lock().expect("no writer panics");
        for offset in [0, 8] {
            control
                .as_file()
                .write_all_at(&word.to_ne_bytes(), offset)
                .expect("the clock's control file can be written");
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("the temporary folder's path is UTF-8").to_owned()
}

/// Compiled once per source text, for all test processes together. The rename
/// lets processes that compile at the same time each find a whole file.
fn compiled_shim() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    SHIM_SOURCE.hash(&mut hasher);
    let name = format!("quorlock-clock-shim-{:016x}.so", hasher.finish());
    let shim = env::temp_dir().join(name);
    if shim.exists() {
        return shim;
    }

    let folder = tempfile::tempdir().expect("the temporary folder takes the clock shim");
    let source = folder.path().join("clock_shim.c");
    let object = folder.path().join("clock_shim.so");
    fs::write(&source, SHIM_SOURCE).expect("the clock shim's source can be written");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&object, &source])
        .output()
        .expect("cc is not installed; the clock shim needs it");
    assert!(
        output.status.success(),
        "cc could not compile the clock shim:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    fs::rename(&object, &shim).expect("the compiled clock shim can be moved into place");
    shim
}
