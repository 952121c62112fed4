//! Redis and Valkey servers as nodes: redis-rs speaks, the scripts decide.
//!
//! Hints come as RESP3 pushes over the connection itself. Every server that is new enough for the scripts speaks RESP3,
//! so there is no second connection to listen on. A server that lets nobody subscribe is a node without hints.

mod codec;
#[cfg(test)]
mod differential;
mod hints;
mod scripts;

use std::collections::HashMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError, Value};
use quorlock_core::node::{Constants, Errand, Standing};

use crate::node::{BoxFuture, Hints, Letter, Life, Node, Reply, Session, Trouble};
use scripts::SCRIPTS;

/// The oldest server that has everything the scripts need (`SET .. PXAT`).
const VERSION_MIN: (u32, u32) = (6, 2);

/// A server that can be connected to.
pub(crate) struct RedisNode {
    title: String,
    client: Client,
    constants: Constants,
    connect_deadline: Duration,
}

impl RedisNode {
    /// Reads a URL. `constants` are what its scripts are told; the cluster's name plays no part in them.
    pub(crate) fn new(url: &str, constants: Constants, connect_deadline: Duration) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| describe(&error))?;
        let scheme = if url.starts_with("rediss") { "rediss" } else { "redis" };
        let title = match info.addr() {
            ::redis::ConnectionAddr::Unix(path) => format!("redis+unix:{}", path.display()),
            address => format!("{scheme}://{address}"),
        };
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings)).map_err(|error| describe(&error))?;
        Ok(Self { title, client, constants, connect_deadline })
    }
}

impl Node for RedisNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, hints: Hints) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        let (client, constants, deadline) = (self.client.clone(), self.constants.clone(), self.connect_deadline);
        let title = self.title.clone();
        Box::pin(async move {
            // Deadlines are the link's business: a late reply must still be read and told from the next one.
            let mut config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(deadline))
                .set_response_timeout(None)
                .set_pipeline_buffer_size(PIPELINE);
            let channel = hints::wanted(&hints);
            if let Some(channel) = channel.clone() {
                config = config.set_push_sender(hints::ear(channel, hints));
            }
            let connection = client.get_multiplexed_async_connection_with_config(&config).await;
            let mut session =
                RedisSession { connection: connection.map_err(|e| trouble(&e))?, constants, run: String::new() };
            session.greet(&title, channel).await?;
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }
}

/// More than a link ever has under way, so that a batch is queued the moment it is sent.
const PIPELINE: usize = 64;

struct RedisSession {
    connection: MultiplexedConnection,
    constants: Constants,
    run: String,
}

impl RedisSession {
    /// Reads who the server is, loads the scripts and listens for hints.
    async fn greet(&mut self, title: &str, channel: Option<String>) -> Result<(), Trouble> {
        let mut pipe = ::redis::pipe();
        pipe.cmd("INFO");
        for script in SCRIPTS.all() {
            pipe.cmd("SCRIPT").arg("LOAD").arg(&script.source);
        }
        // Confirmed by exactly one push, which takes the place of a reply.
        if let Some(channel) = &channel {
            pipe.cmd("SUBSCRIBE").arg(channel);
        }
        let count = pipe.len();
        let mut replies = self.connection.send_packed_commands(&pipe, 0, count).await.map_err(|e| trouble(&e))?;
        if channel.is_some() {
            hints::note(title, replies.pop());
        }
        for reply in &replies {
            if let Value::ServerError(error) = reply {
                return Err(trouble(&error.clone().into()));
            }
        }
        let info = match replies.into_iter().next() {
            Some(Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Some(Value::VerbatimString { text, .. }) => text,
            _ => return Err(malformed("INFO")),
        };
        self.run = identify(&info)?;
        Ok(())
    }
}

impl Session for RedisSession {
    fn run(&self) -> &str {
        &self.run
    }

    fn errand(&mut self, errand: Errand) -> BoxFuture<Result<Standing, Trouble>> {
        let command = codec::errand(&errand);
        let mut connection = self.connection.clone();
        in_order(async move {
            let value = connection.send_packed_command(&command).await.map_err(|e| trouble(&e))?;
            codec::standing(value)
        })
    }

    fn send(&mut self, life: Option<Life>, batch: Vec<Letter>) -> BoxFuture<Result<Vec<Reply>, Trouble>> {
        let pipe = codec::batch(life, &batch, &self.constants);
        let mut connection = self.connection.clone();
        in_order(async move {
            let count = pipe.len();
            let values = connection.send_packed_commands(&pipe, 0, count).await.map_err(|e| trouble(&e))?;
            codec::replies(life, &batch, values)
        })
    }
}

/// Starts a future that begins by queueing bytes, so that the order of calls is the order on the wire.
///
/// The first poll puts the batch into the connection's own queue, which has room for it, and is exempt from the
/// runtime's yielding: whatever the caller does with the future, the bytes are on their way.
fn in_order<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> BoxFuture<T> {
    let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(tokio::task::unconstrained(future));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Box::pin(std::future::ready(value)),
        Poll::Pending => future,
    }
}

/// Who the server is, or why it cannot be a node.
fn identify(info: &str) -> Result<String, Trouble> {
    let fields: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    let field = |name: &str| fields.get(name).copied().unwrap_or_default().trim();
    let unfit = |why: String| Err(Trouble::Unfit(why));
    let version = field("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if (major, minor) < VERSION_MIN {
        return unfit(format!("Redis {version} is too old: 6.2 or later is needed"));
    }
    if field("role") != "master" {
        return unfit(format!("it is a replica (role {:?}): every node must be an independent master", field("role")));
    }
    if field("cluster_enabled") == "1" {
        return unfit("it is part of a Redis Cluster: every node must be an independent master".into());
    }
    if field("maxmemory_policy") != "noeviction" {
        return unfit(format!(
            "its maxmemory-policy is {:?}, so it may forget a lock under pressure: set it to noeviction",
            field("maxmemory_policy")
        ));
    }
    let (run, replication) = (field("run_id"), field("master_replid"));
    if run.is_empty() {
        return unfit("it does not tell its run_id".into());
    }
    Ok(format!("{run}/{replication}"))
}

/// What an error of the client library means for the link.
fn trouble(error: &RedisError) -> Trouble {
    let text = describe(error);
    match error.kind() {
        ErrorKind::AuthenticationFailed => Trouble::Denied(text),
        _ if error.code() == Some("WRONGPASS") => Trouble::Denied(format!("authentication failed: {text}")),
        _ if matches!(error.code(), Some("NOPERM" | "NOAUTH")) => Trouble::Denied(text),
        _ if error.is_connection_refusal() || error.is_timeout() => Trouble::Unreachable(text),
        _ => Trouble::Broken(text),
    }
}

/// An error in words, without the parts of a command that it may repeat.
fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            let detail = detail.split(", with args").next().unwrap_or_default();
            format!("{code} {detail}")
        }
        (Some(code), None) => code.into(),
        (None, _) => error.to_string(),
    }
}

fn malformed(what: &str) -> Trouble {
    Trouble::Broken(format!("a malformed reply to {what}"))
}

#[cfg(test)]
mod tests;
