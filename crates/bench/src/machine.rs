//! The machine on which a case is measured.

use serde::{Deserialize, Serialize};

/// A machine, and its load at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    /// The version of redis-server.
    pub(crate) redis: String,
    /// The load average of the last minute.
    pub(crate) load: f64,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()));
        let redis = std::process::Command::new("redis-server").arg("--version").output();
        let redis = redis.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or_default().to_owned();
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor.unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            redis,
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default(),
        }
    }
}
