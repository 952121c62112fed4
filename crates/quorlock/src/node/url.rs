//! The URLs of nodes: `scheme://[user:password@]host[:port],..[/path][?setting=value&..]`, `sqlite:PATH` and `memory:`.
//!
//! Error messages never quote a malformed part of a URL: after a stray character in a password, any part of the URL may
//! contain a piece of the password.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

/// A username and a password.
pub(crate) type Login = (String, String);

const SCHEMES: &str =
    "use redis://, rediss://, redis+sentinel://, redis+cluster://, redis+unix:PATH, sqlite:PATH or memory:";
const ENCODING: &str = "in a user or password, write %23 for #, %2F for /, %3A for :, %3F for ? and %40 for @";
/// The largest number of hosts in one URL.
const HOSTS_MAX: usize = 64;
const REDIS_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// A parsed node URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeUrl {
    Memory,
    Sqlite(PathBuf),
    Redis(Origin),
}

/// The Redis servers of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `redis://`, `rediss://` and `redis+unix:`.
    Server(Server),
    /// `redis+sentinel://`.
    Sentinels(Arc<Sentinels>),
    /// `redis+cluster://`: some of the servers of a Redis Cluster.
    Cluster(Vec<Server>),
}

/// The sentinels that watch a service, and the login for its master.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    pub(crate) hosts: Vec<Server>,
    pub(crate) service: String,
    pub(crate) login: Option<Login>,
    pub(crate) db: u16,
}

/// The address of a Redis server, and its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) login: Option<Login>,
    pub(crate) db: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Writes the URL without login and settings.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |servers: &[Server]| servers.iter().map(|server| server.address.to_string()).collect::<Vec<_>>().join(",");
        match self {
            Self::Server(Server { address: Address::Unix(path), .. }) => write!(f, "redis+unix:{}", path.display()),
            Self::Server(Server { address, tls: true, .. }) => write!(f, "rediss://{address}"),
            Self::Server(Server { address, .. }) => write!(f, "redis://{address}"),
            Self::Sentinels(sentinels) => {
                write!(f, "redis+sentinel://{}/{}", list(&sentinels.hosts), sentinels.service)
            }
            Self::Cluster(servers) => write!(f, "redis+cluster://{}", list(servers)),
        }
    }
}

impl NodeUrl {
    /// Parses a URL. `default_login` applies to Redis servers whose URL has no password.
    ///
    /// # Errors
    /// The error says which part of the URL is wrong, and what to write instead.
    pub(crate) fn parse(url: &str, default_login: Option<&Login>) -> Result<Self, String> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("it has no scheme: {SCHEMES}"))?;
        match scheme {
            "memory" => Ok(Self::Memory),
            "sqlite" if rest.is_empty() => Err("it has no path: write sqlite:/var/lib/locks.db".into()),
            "sqlite" => Ok(Self::Sqlite(rest.into())),
            "redis" | "rediss" => parse_server(scheme == "rediss", rest, default_login).map(Self::Redis),
            "redis+unix" | "unix" => parse_unix(rest, default_login).map(Self::Redis),
            "redis+sentinel" => parse_sentinels(rest, default_login).map(Self::Redis),
            "redis+cluster" => parse_cluster(rest, default_login).map(Self::Redis),
            "rediss+sentinel" | "rediss+cluster" => {
                let plain = scheme.replace("rediss", "redis");
                Err(format!("for TLS, add a setting, as in {plain}://..?tls=true"))
            }
            _ => Err(format!("its scheme is unknown: {SCHEMES}")),
        }
    }
}

fn parse_server(tls: bool, rest: &str, default_login: Option<&Login>) -> Result<Origin, String> {
    let (login, hosts, path, settings) = split(rest)?;
    settings.end("none")?;
    let servers = parse_servers(hosts, REDIS_PORT, tls, login.as_ref().or(default_login))?;
    let [server] = <[Server; 1]>::try_from(servers)
        .map_err(|servers| format!("it contains {} hosts: pass a URL of its own for each host", servers.len()))?;
    Ok(Origin::Server(Server { db: parse_db(path)?, ..server }))
}

fn parse_unix(rest: &str, default_login: Option<&Login>) -> Result<Origin, String> {
    let (path, settings) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path);
    if !path.starts_with('/') {
        return Err("it has no absolute path: write redis+unix:/run/redis.sock".into());
    }
    let mut settings = Settings::parse(settings)?;
    let login = settings.login("user", "pass")?;
    let db = parse_db(&settings.take("db"))?;
    settings.end("user, pass, db")?;
    let address = Address::Unix(decode(path)?.into());
    Ok(Origin::Server(Server { address, tls: false, login: login.or(default_login.cloned()), db }))
}

fn parse_sentinels(rest: &str, default_login: Option<&Login>) -> Result<Origin, String> {
    let (login, hosts, service, mut settings) = split(rest)?;
    // Sentinel allows no other characters in the name of a service.
    if service.is_empty() || !is_name(service) {
        return Err("it names no service that the sentinels watch: write redis+sentinel://host:26379/mymaster".into());
    }
    let tls = settings.tls()?;
    let db = parse_db(&settings.take("db"))?;
    let sentinel_login = settings.login("sentinel_username", "sentinel_password")?;
    settings.end("db, tls, sentinel_username, sentinel_password")?;
    let hosts = parse_servers(hosts, SENTINEL_PORT, tls, sentinel_login.as_ref())?;
    let login = login.or(default_login.cloned());
    Ok(Origin::Sentinels(Arc::new(Sentinels { hosts, service: service.into(), login, db })))
}

fn parse_cluster(rest: &str, default_login: Option<&Login>) -> Result<Origin, String> {
    let (login, hosts, path, mut settings) = split(rest)?;
    if !path.is_empty() {
        return Err("a Redis Cluster has no databases: remove the / and the text after it".into());
    }
    let tls = settings.tls()?;
    settings.end("tls")?;
    Ok(Origin::Cluster(parse_servers(hosts, REDIS_PORT, tls, login.as_ref().or(default_login))?))
}

/// Splits the text after the scheme into login, hosts, path and settings.
fn split(rest: &str) -> Result<(Option<Login>, &str, &str, Settings), String> {
    let rest = rest.strip_prefix("//").ok_or("it has no // after its scheme: write redis://host:6379")?;
    if rest.contains('#') {
        return Err(format!("it has a #, which has no meaning here: {ENCODING}"));
    }
    let (rest, settings) = rest.split_once('?').unwrap_or((rest, ""));
    // No valid URL has such a part: the port, database or service name before the second // would be invalid.
    if rest.split(',').skip(1).any(|part| part.starts_with("redis") && part.contains("://")) {
        return Err("it contains several URLs: pass each URL as an item of its own".into());
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(parse_login(login)?), hosts),
        None => (None, authority),
    };
    Ok((login, hosts, path, Settings::parse(settings)?))
}

/// The settings after the `?`.
struct Settings(HashMap<String, String>);

impl Settings {
    fn parse(text: &str) -> Result<Self, String> {
        let mut settings = HashMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a setting after the ? has no value: write name=value")?;
            if settings.insert(name.to_owned(), decode(value)?).is_some() {
                return Err("a setting after the ? is given twice".into());
            }
        }
        Ok(Self(settings))
    }

    /// Removes a setting, and returns the value, or an empty string if the setting is missing.
    fn take(&mut self, name: &str) -> String {
        self.0.remove(name).unwrap_or_default()
    }

    fn login(&mut self, user: &str, password: &str) -> Result<Option<Login>, String> {
        match (self.take(user), self.take(password)) {
            (user, password) if user.is_empty() && password.is_empty() => Ok(None),
            (_, secret) if secret.is_empty() => Err(format!("its {user} needs a password: add {password}=..")),
            (user, password) => Ok(Some(make_login(user, password))),
        }
    }

    fn tls(&mut self) -> Result<bool, String> {
        match self.take("tls").as_str() {
            "" | "false" => Ok(false),
            "true" => Ok(true),
            _ => Err("tls must be true or false".into()),
        }
    }

    /// Fails if a setting is left that [`take`](Self::take) has not removed. `known` lists the valid settings.
    fn end(&self, known: &str) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("unknown setting after the ? (known here: {known})")) }
    }
}

fn parse_login(login: &str) -> Result<Login, String> {
    match login.split_once(':') {
        Some((user, password)) if !password.is_empty() => Ok(make_login(decode(user)?, decode(password)?)),
        _ => Err(format!("its login has no password: write user:password@ or :password@ before the host; {ENCODING}")),
    }
}

fn make_login(user: String, password: String) -> Login {
    (if user.is_empty() { "default".into() } else { user }, password)
}

fn parse_servers(hosts: &str, default_port: u16, tls: bool, login: Option<&Login>) -> Result<Vec<Server>, String> {
    let server = |(index, host): (usize, &str)| match parse_host(host, default_port) {
        Ok(address) => Ok(Server { address, tls, login: login.cloned(), db: 0 }),
        Err(why) if hosts.contains(',') => Err(format!("host {}: {why}", index + 1)),
        Err(why) => Err(why),
    };
    let servers: Vec<Server> = hosts.split(',').enumerate().map(server).collect::<Result<_, _>>()?;
    if servers.len() > HOSTS_MAX {
        return Err(format!("it has {} hosts: at most {HOSTS_MAX} are allowed", servers.len()));
    }
    Ok(servers)
}

fn parse_host(text: &str, default_port: u16) -> Result<Address, String> {
    let (host, port) = match text.rsplit_once(':') {
        // The colons inside the brackets belong to an IPv6 address.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        Some(port) => parse_number(port).filter(|port| *port > 0).ok_or("the port must be a number from 1 to 65535")?,
        None => default_port,
    };
    if host.is_empty() {
        return Err("the host name is missing: write host or host:port".into());
    }
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => Ok(Address::Tcp(host.into(), port)),
        Some(_) => Err("brackets are for IPv6 addresses: write [2001:db8::1]:6379".into()),
        None if host.contains(':') => Err("write IPv6 addresses in brackets: [2001:db8::1]:6379".into()),
        None if host == "0.0.0.0" => Err("0.0.0.0 is not the address of a server".into()),
        None if is_name(host) => Ok(Address::Tcp(host.into(), port)),
        None => Err(format!("the host name has a character that is not allowed in host names; {ENCODING}")),
    }
}

/// Returns whether the text contains only characters that are valid in host names, service names and numbers.
fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

fn parse_db(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(0);
    }
    parse_number(text).ok_or_else(|| "the database must be a number from 0 to 65535".into())
}

/// Parses digits only: `str::parse` would also accept a sign.
fn parse_number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "a text with % escapes must be UTF-8".into())
}

/// Returns a node's URL without passwords, for logs and messages.
///
/// Also masks malformed parts: after a stray character in a password, any part of the URL may contain a piece of the
/// password.
pub fn mask_url(url: &str) -> String {
    if url.starts_with("sqlite:") || url == "memory:" {
        return url.to_owned();
    }
    let (main, settings) = url.split_once('?').map_or((url, None), |(main, settings)| (main, Some(settings)));
    let mut masked = match main.split_once("://") {
        _ if main.starts_with("unix:") || main.starts_with("redis+unix:") => main.to_owned(),
        Some((scheme, rest)) => format!("{scheme}://{}", mask_servers(rest)),
        None => match main.rsplit_once('@') {
            Some((_, host)) => format!("***@{}", mask_host(host)),
            None => mask_host(main),
        },
    };
    for (index, setting) in settings.iter().flat_map(|settings| settings.split('&')).enumerate() {
        masked.push(if index == 0 { '?' } else { '&' });
        match setting.split_once('=') {
            Some(("db" | "tls" | "user" | "sentinel_username", _)) => masked += setting,
            Some((name @ ("pass" | "sentinel_password"), _)) => masked.extend([name, "=***"]),
            _ => masked += "***",
        }
    }
    masked
}

/// Masks `[user:password@]host[:port],..[/path]`.
fn mask_servers(text: &str) -> String {
    // A password may itself contain `@` or `/`, so split at the last `@`.
    let (login, rest) = text.rsplit_once('@').map_or((None, text), |(login, rest)| (Some(login), rest));
    let login = match login.map(|login| login.split_once(':')) {
        Some(Some((user, password))) if is_name(user) && !password.is_empty() => format!("{user}:***@"),
        Some(_) => "***@".into(),
        None => String::new(),
    };
    let (hosts, path) = rest.split_once('/').map_or((rest, None), |(hosts, path)| (hosts, Some(path)));
    let hosts = hosts.split(',').map(mask_host).collect::<Vec<_>>().join(",");
    let path = path.map(|path| if is_name(path) { format!("/{path}") } else { "/***".into() });
    format!("{login}{hosts}{}", path.unwrap_or_default())
}

fn mask_host(text: &str) -> String {
    match text.split_once(':') {
        _ if text.is_empty() || parse_host(text, REDIS_PORT).is_ok() || has_wrong_port(text) => text.to_owned(),
        Some((name, _)) if is_name(name) => format!("{name}:***"),
        _ => "***".into(),
    }
}

/// Returns whether the text is the address of a host with a wrong port. If the text before the colon could be a
/// username, returns `false`, because the text after the colon could be a password.
fn has_wrong_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_address = host == "localhost" || format!("{host}:0").parse::<std::net::SocketAddr>().is_ok();
    is_address && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
