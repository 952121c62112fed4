//! URLs that name several servers at once: `scheme://[user:password@]host[:port],host[:port]../path?setting=value&..`.
//!
//! Nothing of a URL is repeated in an error: a password with a stray character may be in any of its parts.

use std::collections::HashMap;
use std::fmt::Write as _;

use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use percent_encoding::percent_decode_str;

use super::wire::Connecting;
use super::{connect, describe};
use crate::node::Trouble;

/// The most servers that a URL may name.
const HOSTS_MAX: usize = 64;

/// What such a URL says.
pub(super) struct Seeds {
    pub(super) hosts: Vec<(String, u16)>,
    /// For the servers that hold the data.
    pub(super) login: RedisConnectionInfo,
    /// What comes after the first slash.
    pub(super) path: String,
    settings: HashMap<String, String>,
}

impl Seeds {
    pub(super) fn parse(url: &str, default_port: u16) -> Result<Self, String> {
        let (_, rest) = url.split_once("://").ok_or("it needs :// and hosts behind its scheme")?;
        if rest.contains('#') {
            return Err("a # means nothing here: in a password it is written %23".into());
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (parse_login(login)?, hosts),
            None => (RedisConnectionInfo::default(), authority),
        };
        let mut settings = HashMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("a setting behind the ? has no value")?;
            if settings.insert(key.to_owned(), decode(value)?).is_some() {
                return Err("a setting behind the ? is there twice".into());
            }
        }
        let hosts = hosts.split(',').enumerate();
        let hosts: Vec<_> =
            hosts.map(|(index, host)| parse_host(index, host, default_port)).collect::<Result<_, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err(format!("{} hosts are too many: at most {HOSTS_MAX}", hosts.len()));
        }
        Ok(Self { hosts, login, path: path.to_owned(), settings })
    }

    /// Takes a setting out, if it is there.
    pub(super) fn setting(&mut self, key: &str) -> Option<String> {
        self.settings.remove(key)
    }

    /// Whether everyone is spoken to over TLS.
    pub(super) fn tls(&mut self) -> Result<bool, String> {
        match self.setting("tls").as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("tls is true or false".into()),
        }
    }

    /// Whatever has not been taken out is not known.
    pub(super) fn end(&self, known: &str) -> Result<(), String> {
        if self.settings.is_empty() { Ok(()) } else { Err(format!("a setting behind the ? is not one of {known}")) }
    }

    /// Where all of them are, and who we are to them.
    pub(super) fn infos(&self, tls: bool, login: &RedisConnectionInfo) -> Result<Vec<ConnectionInfo>, String> {
        let infos = self.hosts.iter().map(|(host, port)| info(host.clone(), *port, tls, login));
        infos.collect::<Result<_, _>>().map_err(|trouble| trouble.as_silence().to_string())
    }

    /// The hosts, for people.
    pub(super) fn title(&self) -> String {
        let mut title = String::new();
        for (host, port) in &self.hosts {
            let comma = if title.is_empty() { "" } else { "," };
            let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
            let _ = write!(title, "{comma}{open}{host}{close}:{port}");
        }
        title
    }
}

/// Where a server is, and who we are to it.
pub(super) fn info(host: String, port: u16, tls: bool, login: &RedisConnectionInfo) -> Result<ConnectionInfo, Trouble> {
    let address = if tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let info = address.into_connection_info().map_err(|error| Trouble::Unreachable(describe(&error)))?;
    Ok(info.set_redis_settings(login.clone()))
}

/// Asks all of them at once, and the first that knows decides: asked in turn, one that is silent would use up the time for
/// the others. The question is over after the deadline.
pub(super) async fn ask_all<T, F: Future<Output = Result<T, Trouble>>>(
    infos: &[ConnectionInfo],
    deadline: Duration,
    question: impl Fn(Connecting, ConnectionInfo) -> F,
) -> Result<T, Trouble> {
    let question = &question;
    let ask = |info: ConnectionInfo| async move {
        let address = info.addr().clone();
        let asked = async { question(connect(&info, deadline).await?, info).await };
        let late = |_| Err(Trouble::Unreachable(format!("no answer within {deadline:?}")));
        (address, tokio::time::timeout(deadline, asked).await.unwrap_or_else(late))
    };
    let mut asked: FuturesUnordered<_> = infos.iter().cloned().map(ask).collect();
    let mut reasons = Vec::new();
    let (mut denied, mut unfit, mut may_pass) = (None, None, false);
    while let Some((address, answer)) = asked.next().await {
        match answer {
            Ok(answer) => return Ok(answer),
            Err(Trouble::Denied(why)) => denied = Some(Trouble::Denied(format!("{address}: {why}"))),
            Err(Trouble::Unfit(why)) => {
                reasons.push(format!("{address}: {why}"));
                unfit = Some(Trouble::Unfit(why));
            }
            Err(trouble) => {
                reasons.push(format!("{address} {}", trouble.as_silence()));
                may_pass = true;
            }
        }
    }
    // What no waiting can mend, if nothing else may be the reason.
    let hopeless = denied.or(unfit.filter(|_| !may_pass));
    Err(hopeless.unwrap_or_else(|| Trouble::Unreachable(reasons.join("; "))))
}

/// The login for a URL without a password.
pub(super) fn with_login(settings: &RedisConnectionInfo, login: Option<&(String, String)>) -> RedisConnectionInfo {
    match (settings.password(), login) {
        (None, Some((username, password))) => settings.clone().set_username(username).set_password(password),
        _ => settings.clone(),
    }
}

fn parse_login(login: &str) -> Result<RedisConnectionInfo, String> {
    let (user, password) = login.split_once(':').ok_or("a user needs a password: user:password@ or :password@")?;
    make_login(&decode(user)?, &decode(password)?)
}

/// Who we are: a user, or the default one.
pub(super) fn make_login(user: &str, password: &str) -> Result<RedisConnectionInfo, String> {
    if password.is_empty() {
        return Err("a user needs a password".into());
    }
    let login = RedisConnectionInfo::default().set_password(password);
    Ok(if user.is_empty() { login } else { login.set_username(user) })
}

fn parse_host(index: usize, text: &str, default_port: u16) -> Result<(String, u16), String> {
    let wrong = |why: &str| format!("host {}: {why}", index + 1);
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().map_err(|_| wrong("its port is not a number"))?)
        }
        _ => (text, default_port),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    if host.is_empty() {
        return Err(wrong("it has no name"));
    }
    if bare.is_none() && host.contains([':', '[', ']']) {
        return Err(wrong("an IPv6 address is written in brackets"));
    }
    Ok((host.to_owned(), port))
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "what is written with % is not UTF-8".into())
}

#[cfg(test)]
mod tests;
