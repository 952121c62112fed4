//! A master that sentinels name: another one after each failover, and one node all the same.
//!
//! A server that is demoted learns of it many seconds later than the sentinels' subscribers. So the session listens to one
//! sentinel and asks it again and again; if it names another master, the session ends. If it is silent or gone, the session
//! goes on to another sentinel.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::commands::Commands;
use super::seeds::ask_all;
use super::value::Value;
use super::wire::{AbortOnDrop, Connecting};
use super::{hello, malformed};
use crate::node::url::{Address, Sentinels, Server};
use crate::node::{Answer, Inbox, Trouble};

/// Where sentinels announce another master: `<service> <old host> <old port> <new host> <new port>`.
const SWITCH: &str = "+switch-master";
/// How long after its last answer a sentinel is asked again, and how long it has to answer. Together less than a link's
/// heartbeat, so that a change is noticed within that even if the sentinel hangs.
const BEAT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(500);
/// How long all sentinels have to answer, when they are asked together: the first answer counts, also a slow one.
const ROUND: Duration = Duration::from_secs(5);
/// The least time between two rounds of asking all sentinels.
const PAUSE: Duration = Duration::from_millis(250);

impl Sentinels {
    /// Asks for the master, and returns the connection to the sentinel that knows it, which announces changes from before
    /// its answer. A wrong answer shows in the handshake with the server.
    pub(super) async fn master(&self, deadline: Duration) -> Result<(Server, Connecting), Trouble> {
        ask_all(&self.hosts, deadline, |mut connecting, sentinel| async move {
            let mut commands = Commands::default();
            hello(&sentinel, &mut commands);
            commands.command("SUBSCRIBE").word(SWITCH);
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

    /// Ends the session once a sentinel names another master than this one.
    pub(super) fn watch(self: &Arc<Self>, master: Address, sentinel: Connecting, inbox: Inbox) -> AbortOnDrop {
        let sentinels = Arc::clone(self);
        AbortOnDrop::new(&tokio::spawn(async move {
            let mut listened = Some(sentinel);
            loop {
                if let Some(sentinel) = listened.take()
                    && sentinels.names_another(sentinel, &master).await
                {
                    break;
                }
                match sentinels.master(ROUND).await {
                    Ok((named, sentinel)) if named.address == master => listened = Some(sentinel),
                    Ok(_) => break,
                    // The master is no worse for sentinels that are gone.
                    Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
            inbox.take(Answer::End(Trouble::Broken("its sentinels name another master".into())));
        }))
    }

    /// Listens to this sentinel, and asks it again and again, until it names another master: true. False if it is silent,
    /// gone, or does not know the service any more.
    async fn names_another(&self, sentinel: Connecting, master: &Address) -> bool {
        let (values, mut heard) = mpsc::unbounded_channel();
        let wire = sentinel.start(move |value| value.is_ok_and(|value| values.send(value).is_ok()));
        let (mut asked, mut due) = (false, Instant::now());
        loop {
            tokio::select! {
                value = heard.recv() => {
                    let named = match value {
                        Some(Value::Push(parts)) => switched(&self.service, &parts),
                        Some(value) => {
                            (asked, due) = (false, Instant::now() + BEAT);
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
                    if asked {
                        return false;
                    }
                    (asked, due) = (true, Instant::now() + ANSWER);
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

/// The new master of the service, if the sentinel announces one.
fn switched(service: &str, push: &[Value]) -> Option<Address> {
    let [kind, _, said] = push else { return None };
    let words: Vec<&str> = said.as_str()?.split(' ').collect();
    let [name, _, _, host, port] = words.as_slice() else { return None };
    let is_ours = kind.as_str() == Some("message") && *name == service;
    is_ours.then_some(Address::Tcp((*host).to_owned(), port.parse().ok()?))
}

#[cfg(test)]
mod tests;
