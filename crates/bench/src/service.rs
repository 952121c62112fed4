//! Runs `quorlock serve` in its own process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::Failure;
use crate::case::{Contender, Figures, RATE};
use crate::options::quorlock;

/// A `quorlock serve` process for callers on this machine.
pub(crate) struct Service {
    child: Child,
    address: String,
}

impl Service {
    /// Starts the service, and waits until it listens.
    pub(crate) fn start(nodes: &[String]) -> Result<Self, Failure> {
        let mut command = quorlock_testkit::command_that_dies_with_parent(quorlock()?.as_os_str());
        command.args(["serve", "--nodes", &nodes.join(","), "--listen", "127.0.0.1:0", "--quiet"]);
        // For the service, all callers are one client, whose rate must not be limited.
        command.args(["--rate-limit", &u32::MAX.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = quorlock_testkit::spawn(command)?;
        let output = child.stdout.take().ok_or("the service has no stdout")?;
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        let address = line.trim().strip_prefix("serving on http://").unwrap_or_default().to_owned();
        let service = Self { child, address };
        if service.address.is_empty() {
            return Err(format!("the service did not start: {line:?}, {read:?}").into());
        }
        Ok(service)
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Processor time of the service's threads.
    fn processor_time(&self) -> Result<Duration, Failure> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let output = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += output.split(' ').next().ok_or("/proc has no processor time")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A contender that calls a service. Its figures include the service's processor time.
pub(crate) struct ContenderWithService<C> {
    pub(crate) contender: C,
    pub(crate) service: Arc<Service>,
    pub(crate) turn_length: Duration,
}

impl<C: Contender> Contender for ContenderWithService<C> {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let before = self.service.processor_time()?;
        let mut figures = self.contender.turn()?;
        let processor_time = self.service.processor_time()?.saturating_sub(before);
        if let Some(rate) = figures.get(RATE) {
            let cycles = rate * self.turn_length.as_secs_f64();
            figures.insert("service_cpu_us".into(), processor_time.as_secs_f64() * 1e6 / cycles);
        }
        Ok(figures)
    }
}
