//! The holder that other clients see.

use quorlock_core::name::Holder;

use super::ClientBuilder;

impl ClientBuilder {
    /// Returns the holder of this client's leases.
    pub(super) fn holder(&self) -> Holder {
        // A simulation uses the same holder on every machine, so that its runs are reproducible.
        #[cfg(feature = "sim")]
        if crate::platform::sim::is_on() {
            return Holder::new("simulated", 0, &self.label);
        }
        Holder::new(&user_and_host(), std::process::id(), &self.label)
    }
}

/// Returns `root@db-3`, or only the host if the user is not known.
fn user_and_host() -> String {
    let value_of = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let user = value_of("LOGNAME").or_else(|| value_of("USER"));
    #[cfg(target_os = "linux")]
    let user = user.or_else(user_in_passwd);
    user.map_or_else(host, |user| format!("{user}@{}", host()))
}

/// Returns the user's name in `/etc/passwd`. Cron jobs and containers often have neither `LOGNAME` nor `USER`.
#[cfg(target_os = "linux")]
fn user_in_passwd() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let has_uid = |line: &str| line.split(':').nth(2) == Some(&uid);
    Some(users.lines().find(|line| has_uid(line))?.split(':').next()?.to_owned())
}

fn host() -> String {
    #[cfg(target_os = "linux")]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    return std::env::var("HOSTNAME").unwrap_or_default();
}
