//! The processor time of the servers and of this process. It depends less on other load than the elapsed time.

use std::time::Duration;

use quorlock_testkit::RedisServer;
use rustix::time::{ClockId, clock_gettime};

/// The processor time of the servers and of this process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessorTime {
    pub(crate) servers: Duration,
    pub(crate) own: Duration,
}

impl ProcessorTime {
    /// The processor time since the processes started.
    pub(crate) fn now(servers: &[RedisServer]) -> std::io::Result<Self> {
        let servers = servers.iter().map(time_of_server).sum::<std::io::Result<Duration>>()?;
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self { servers, own: Duration::try_from(own).map_err(std::io::Error::other)? })
    }

    /// Adds the processor time since `before`.
    pub(crate) fn add_since(&mut self, before: Self, servers: &[RedisServer]) -> std::io::Result<()> {
        let now = Self::now(servers)?;
        self.servers += now.servers.saturating_sub(before.servers);
        self.own += now.own.saturating_sub(before.own);
        Ok(())
    }

    /// The time of the servers and of this process, in microseconds per cycle.
    pub(crate) fn micros_per_cycle(self, count: usize) -> (f64, f64) {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / count.max(1) as f64;
        (micros(self.servers), micros(self.own))
    }
}

fn time_of_server(server: &RedisServer) -> std::io::Result<Duration> {
    let info = server.try_command(&["INFO", "cpu"])?;
    let field = |name: &str| {
        let line = |line: &str| line.strip_prefix(name)?.trim().parse::<f64>().ok();
        info.as_str().and_then(|text| text.lines().find_map(line)).ok_or(std::io::ErrorKind::InvalidData)
    };
    Ok(Duration::from_secs_f64(field("used_cpu_sys:")? + field("used_cpu_user:")?))
}
