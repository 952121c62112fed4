//! A master that sentinels name: another one after each failover, and one node all the same.
//!
//! A server that is demoted learns of it many seconds later than the sentinels' subscribers. So the session listens to one
//! sentinel and asks it again and again; if it names another master, the session ends. If it is silent or gone, the session
//! goes on to another sentinel.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, ConnectionAddr, ConnectionInfo, PushKind, RedisConnectionInfo, Value, cmd};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::seeds::{self, Seeds};
use super::wire::{Connecting, Receiver};
use super::{malformed, trouble};
use crate::node::{Answer, Inbox, Trouble};

/// Where sentinels tell of another master: `<service> <old host> <old port> <new host> <new port>`.
const SWITCH: &str = "+switch-master";
/// How long after its last answer a sentinel is asked again, and how long it has to answer. Together less than a link's
/// heartbeat, so that a change is noticed within that even if the sentinel hangs.
const BEAT: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(500);
/// How long all sentinels have to answer, when they are asked together: the first answer counts, also a slow one.
const ROUND: Duration = Duration::from_secs(5);
/// The least time between two rounds of asking all sentinels.
const PAUSE: Duration = Duration::from_millis(250);
const PORT: u16 = 26_379;
const SETTINGS: &str = "db, tls, sentinel_username, sentinel_password";

/// Who knows the master of a service.
pub(super) struct Sentinels {
    service: String,
    hosts: Vec<ConnectionInfo>,
    /// For the master, wherever it is.
    login: RedisConnectionInfo,
    tls: bool,
}

impl Sentinels {
    /// Reads `redis+sentinel://[user:password@]host[:port],..../SERVICE[?db=N&tls=true&sentinel_username=..&
    /// sentinel_password=..]`, and gives its title, too. The login is for a master whose password is not there.
    pub(super) fn parse(url: &str, login: Option<&(String, String)>) -> Result<(String, Self), String> {
        let mut seeds = Seeds::parse(url, PORT)?;
        let service = std::mem::take(&mut seeds.path);
        // Sentinel itself allows no more in a service's name.
        if service.is_empty() || !service.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) {
            return Err(
                "it needs the service that its sentinels watch, as in redis+sentinel://host:26379/mymaster".into()
            );
        }
        let tls = seeds.tls()?;
        let mut login = seeds::with_login(&seeds.login, login);
        if let Some(db) = seeds.setting("db") {
            let db = db.parse::<u16>().map_err(|_| "db is the number of a database")?;
            login = login.set_db(db.into());
        }
        let sentinel_login = match (seeds.setting("sentinel_username"), seeds.setting("sentinel_password")) {
            (None, None) => RedisConnectionInfo::default(),
            (user, password) => seeds::make_login(&user.unwrap_or_default(), &password.unwrap_or_default())?,
        };
        seeds.end(SETTINGS)?;
        let hosts = seeds.infos(tls, &sentinel_login)?;
        let title = format!("redis+sentinel://{}/{service}", seeds.title());
        Ok((title, Self { service, hosts, login, tls }))
    }

    /// Asks who the master is, and gives the connection to the sentinel that knows. A wrong answer is found out by whoever
    /// connects to the server.
    pub(super) async fn master(&self, deadline: Duration) -> Result<(ConnectionInfo, Connecting), Trouble> {
        seeds::ask_all(&self.hosts, deadline, |mut connecting, sentinel| async move {
            let named = named(&mut connecting, sentinel.redis_settings(), &self.service).await?;
            let (host, port) = named.ok_or_else(|| Trouble::Unfit(format!("no sentinel knows {:?}", self.service)))?;
            Ok((seeds::info(host, port, self.tls, &self.login)?, connecting))
        })
        .await
    }

    /// Ends the session once a sentinel names another master than this one.
    pub(super) fn watch(self: &Arc<Self>, master: &ConnectionInfo, sentinel: Connecting, inbox: Inbox) -> Watch {
        let (sentinels, master) = (Arc::clone(self), address(master));
        let task = tokio::spawn(async move {
            let mut listened = Some(sentinel);
            loop {
                if let Some(sentinel) = listened.take()
                    && sentinels.listen(sentinel, &master).await == Heard::AnotherMaster
                {
                    break;
                }
                match sentinels.master(ROUND).await {
                    Ok((named, sentinel)) if address(&named) == master => listened = Some(sentinel),
                    Ok(_) => break,
                    // The master is no worse for sentinels that are gone.
                    Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
            inbox.take(Answer::End(Trouble::Broken("its sentinels name another master".into())));
        });
        Watch(task.abort_handle())
    }

    /// Listens to this sentinel, and asks it again and again, until it names another master or is of no use.
    async fn listen(&self, sentinel: Connecting, master: &Address) -> Heard {
        let (values, mut heard) = mpsc::unbounded_channel();
        let wire = sentinel.start(Relay(values));
        let (mut asked, mut due) = (false, Instant::now());
        loop {
            tokio::select! {
                value = heard.recv() => {
                    let named = match value {
                        Some(Value::Push { kind, data }) => switched(&self.service, &kind, &data),
                        Some(value) => {
                            (asked, due) = (false, Instant::now() + BEAT);
                            let Ok(Some(named)) = parse_address(Some(value)) else { return Heard::Nothing };
                            Some(named)
                        }
                        None => return Heard::Nothing,
                    };
                    if named.is_some_and(|named| named != *master) {
                        return Heard::AnotherMaster;
                    }
                }
                () = tokio::time::sleep_until(due) => {
                    if asked {
                        return Heard::Nothing;
                    }
                    (asked, due) = (true, Instant::now() + ANSWER);
                    wire.send(&who_is_master(&self.service).get_packed_command());
                }
            }
        }
    }
}

/// What came of listening to a sentinel.
#[derive(PartialEq, Eq)]
enum Heard {
    AnotherMaster,
    /// It is silent, gone, or does not know the service any more.
    Nothing,
}

/// The task that listens to sentinels. Dropped, it ends.
pub(super) struct Watch(AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Address = (String, u16);

fn address(info: &ConnectionInfo) -> Address {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port),
        _ => Address::default(),
    }
}

fn who_is_master(service: &str) -> Cmd {
    let mut command = cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(service);
    command
}

/// What a sentinel says the master's address is; `None` if it does not know the service. From before it says so, it tells
/// of changes.
async fn named(
    connecting: &mut Connecting,
    login: &RedisConnectionInfo,
    service: &str,
) -> Result<Option<Address>, Trouble> {
    let mut pipe = ::redis::pipe();
    super::add_hello(&mut pipe, login);
    pipe.cmd("SUBSCRIBE").arg(SWITCH);
    pipe.add_command(who_is_master(service));
    let answers = connecting.ask(&pipe.get_packed_pipeline(), pipe.len()).await;
    let mut answers = answers.map_err(|error| Trouble::Broken(error.to_string()))?;
    for answer in &answers {
        if let Value::ServerError(error) = answer {
            return Err(trouble(&error.clone().into()));
        }
    }
    parse_address(answers.pop())
}

/// The address that a sentinel names; `None` if it does not know the service.
fn parse_address(answer: Option<Value>) -> Result<Option<Address>, Trouble> {
    let address = match answer {
        Some(Value::Nil) => return Ok(None),
        Some(Value::Array(address)) => address,
        _ => return Err(malformed("SENTINEL")),
    };
    let [Value::BulkString(host), Value::BulkString(port)] = address.as_slice() else {
        return Err(malformed("SENTINEL"));
    };
    let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
    match (String::from_utf8(host.clone()), port) {
        (Ok(host), Some(port)) if !host.is_empty() => Ok(Some((host, port))),
        _ => Err(malformed("SENTINEL")),
    }
}

/// The new master of the service, if the sentinel tells of one.
fn switched(service: &str, kind: &PushKind, data: &[Value]) -> Option<Address> {
    let (PushKind::Message, [_, Value::BulkString(said)]) = (kind, data) else { return None };
    let said = std::str::from_utf8(said).ok()?;
    let words: Vec<&str> = said.split(' ').collect();
    let [name, _, _, host, port] = words.as_slice() else { return None };
    (*name == service).then_some(((*host).to_owned(), port.parse().ok()?))
}

/// Passes on what a sentinel says, until nobody listens.
struct Relay(mpsc::UnboundedSender<Value>);

impl Receiver for Relay {
    fn receive(&self, value: Value) {
        // The task that listens may have ended.
        let _ = self.0.send(value);
    }

    fn is_over(&self) -> bool {
        self.0.is_closed()
    }

    /// The channel closes with the connection.
    fn end(&self, _error: &io::Error) {}
}

#[cfg(test)]
mod tests;
