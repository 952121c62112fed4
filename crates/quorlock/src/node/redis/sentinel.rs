//! A node on the master that sentinels name. After a failover, another server is the master, but the node is still the
//! same.
//!
//! A demoted server learns of its demotion many seconds after the sentinels' subscribers do. So the session subscribes
//! to one sentinel and polls it. If the sentinel names another master, the session ends. If the sentinel is silent or
//! gone, the session switches to another sentinel.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::resp::{Commands, Value};
use super::seeds::ask_all;
use super::wire::Connecting;
use super::{malformed, write_hello};
use crate::node::url::{Address, Sentinels, Server};
use crate::node::{Answer, Inbox, Trouble};

/// The channel on which sentinels announce a new master: `<service> <old host> <old port> <new host> <new port>`.
const SWITCH_CHANNEL: &str = "+switch-master";
/// The delay between a sentinel's answer and the next poll. This delay and [`POLL_DEADLINE`] together are less than a
/// link's heartbeat, so that a change is noticed within one heartbeat even if the sentinel hangs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a poll.
const POLL_DEADLINE: Duration = Duration::from_millis(500);
/// The time limit for asking all sentinels at once. The first answer is used, so the limit can be long.
const ASK_ALL_DEADLINE: Duration = Duration::from_secs(5);
/// The pause before all sentinels are asked again.
const ASK_ALL_PAUSE: Duration = Duration::from_millis(250);

impl Sentinels {
    /// Asks for the master. Also returns the connection to the sentinel that answered. This connection was subscribed
    /// to changes before the answer, so no change is missed. The handshake with the server detects a wrong answer.
    pub(super) async fn master(&self, deadline: Duration) -> Result<(Server, Connecting), Trouble> {
        ask_all(&self.hosts, deadline, |mut connecting, sentinel| async move {
            let mut commands = Commands::default();
            write_hello(&sentinel, &mut commands);
            commands.command("SUBSCRIBE").word(SWITCH_CHANNEL);
            self.ask_master(&mut commands);
            let named = connecting.query(&mut commands).await?.pop().unwrap_or(Value::Nil);
            if named == Value::Nil {
                return Err(Trouble::Unfit(format!("no sentinel knows {:?}", self.service)));
            }
            let address = parse_address(&named).ok_or_else(|| malformed("SENTINEL"))?;
            Ok((Server { address, login: self.login.clone(), db: self.db, ..sentinel }, connecting))
        })
        .await
    }

    fn ask_master(&self, commands: &mut Commands) {
        commands.command("SENTINEL").word("get-master-addr-by-name").word(&self.service);
    }

    /// Watches the sentinels, and ends the session when one names another master. Dropping the returned set ends the
    /// watch.
    pub(super) fn watch(self: &Arc<Self>, master: Address, sentinel: Connecting, inbox: Inbox) -> JoinSet<()> {
        let sentinels = Arc::clone(self);
        let mut watch = JoinSet::new();
        watch.spawn(async move {
            let mut current = Some(sentinel);
            loop {
                if let Some(sentinel) = current.take()
                    && sentinels.names_another(sentinel, &master).await
                {
                    break;
                }
                match sentinels.master(ASK_ALL_DEADLINE).await {
                    Ok((named, sentinel)) if named.address == master => current = Some(sentinel),
                    Ok(_) => break,
                    // Continue: the master may work well without its sentinels.
                    Err(_) => {}
                }
                tokio::time::sleep(ASK_ALL_PAUSE).await;
            }
            inbox.deliver(Answer::End(Trouble::Broken("its sentinels name another master".into())));
        });
        watch
    }

    /// Polls this sentinel, and reads the changes that it announces. Returns true once it names another master, and
    /// false if it is silent, gone, or no longer knows the service.
    async fn names_another(&self, sentinel: Connecting, master: &Address) -> bool {
        let (values, mut received) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let wire = sentinel.start(&mut tasks, move |value| value.is_ok_and(|value| values.send(value).is_ok()));
        let (mut is_asked, mut due) = (false, Instant::now());
        loop {
            tokio::select! {
                value = received.recv() => {
                    let named = match value {
                        Some(Value::Push(parts)) => announced_master(&self.service, &parts),
                        Some(value) => {
                            (is_asked, due) = (false, Instant::now() + POLL_INTERVAL);
                            let Some(named) = parse_address(&value) else { return false };
                            Some(named)
                        }
                        None => return false,
                    };
                    if named.is_some_and(|named| named != *master) {
                        return true;
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    if is_asked {
                        return false;
                    }
                    (is_asked, due) = (true, Instant::now() + POLL_DEADLINE);
                    let mut commands = Commands::default();
                    self.ask_master(&mut commands);
                    wire.send(commands.as_bytes());
                }
            }
        }
    }
}

fn parse_address(value: &Value) -> Option<Address> {
    let [host, port] = value.as_array()? else { return None };
    let (host, port) = (host.as_str()?, port.as_str()?.parse().ok()?);
    (!host.is_empty()).then(|| Address::Tcp(host.to_owned(), port))
}

/// Returns the new master of the service, if the push announces one.
fn announced_master(service: &str, push: &[Value]) -> Option<Address> {
    let [kind, _, text] = push else { return None };
    let words: Vec<&str> = text.as_str()?.split(' ').collect();
    let [name, _, _, host, port] = words.as_slice() else { return None };
    let is_ours = kind.as_str() == Some("message") && *name == service;
    is_ours.then_some(Address::Tcp((*host).to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests;
