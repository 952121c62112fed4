//! The holder that other clients see.

use quorlock_core::name::Holder;

use super::ClientBuilder;

impl ClientBuilder {
    /// Returns the holder of this client's leases.
    pub(super) fn holder(&self) -> Holder {
        // The same on every machine, so that simulations are reproducible.
        #[cfg(feature = "sim")]
        if crate::platform::sim::is_on() {
            return Holder::new("simulated", 0, &self.label);
        }
        Holder::new(&user_and_host(), std::process::id(), &self.label)
    }
}

/// Returns `root@db-3`, or only the host if the user is not known.
fn user_and_host() -> String {
    let named = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let user = named("LOGNAME").or_else(|| named("USER"));
    #[cfg(target_os = "linux")]
    let user = user.or_else(user_of_the_system);
    user.map_or_else(host, |user| format!("{user}@{}", host()))
}

/// Returns the user's name in `/etc/passwd`: cron jobs and containers often lack the environment variables.
#[cfg(target_os = "linux")]
fn user_of_the_system() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let of_uid = |line: &str| line.split(':').nth(2) == Some(&uid);
    Some(users.lines().find(|line| of_uid(line))?.split(':').next()?.to_owned())
}

fn host() -> String {
    #[cfg(target_os = "linux")]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(target_os = "linux"))]
    return std::env::var("HOSTNAME").unwrap_or_default();
}
