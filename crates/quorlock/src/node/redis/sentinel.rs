//! A master that sentinels name: another one after each failover, and one node all the same.
//!
//! Servers that are demoted learn of it many seconds later than the sentinels' subscribers. So one sentinel is listened to
//! for as long as the session lives, and its word of another master is the end of the session.

use std::io;
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, PushKind, RedisConnectionInfo, Value};

use super::seeds::{self, Seeds};
use super::wire::{Connecting, Receiver, Wire};
use super::{malformed, trouble};
use crate::node::{Answer, Inbox, Trouble};

/// Where sentinels tell of another master: `<service> <old host> <old port> <new host> <new port>`.
const SWITCH: &str = "+switch-master";
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

    /// Ends the session once the sentinel tells of another master than this one.
    pub(super) fn watch(&self, master: &ConnectionInfo, connecting: Connecting, inbox: Inbox) -> Wire {
        let master = match master.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => format!("{host} {port}"),
            _ => String::new(),
        };
        connecting.start(Watch { service: self.service.clone(), master, inbox })
    }
}

type Address = (String, u16);

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
    pipe.cmd("SENTINEL").arg("get-master-addr-by-name").arg(service);
    let answers = connecting.ask(&pipe.get_packed_pipeline(), pipe.len()).await;
    let mut answers = answers.map_err(|error| Trouble::Broken(error.to_string()))?;
    for answer in &answers {
        if let Value::ServerError(error) = answer {
            return Err(trouble(&error.clone().into()));
        }
    }
    let address = match answers.pop() {
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

/// Listens to a sentinel.
struct Watch {
    service: String,
    /// As in what is said.
    master: String,
    inbox: Inbox,
}

impl Receiver for Watch {
    fn receive(&self, value: Value) {
        let Value::Push { kind: PushKind::Message, data } = value else { return };
        let [_, Value::BulkString(said)] = data.as_slice() else { return };
        let said = String::from_utf8_lossy(said);
        let is_ours = said.split(' ').next() == Some(self.service.as_str());
        // A sentinel names the new master before it tells everyone that it is one.
        let is_known = said.splitn(4, ' ').last() == Some(self.master.as_str());
        if is_ours && !is_known {
            self.inbox.take(Answer::End(Trouble::Broken("its sentinels name another master".into())));
        }
    }

    fn is_over(&self) -> bool {
        self.inbox.is_over()
    }

    /// The master is no worse for a sentinel that is gone.
    fn end(&self, _error: &io::Error) {}
}

#[cfg(test)]
mod tests;
