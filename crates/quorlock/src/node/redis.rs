//! Redis and Valkey servers as nodes: redis-rs knows URLs and values, the scripts decide.
//!
//! Hints come as RESP3 pushes over the connection itself. Every server that is new enough for the scripts speaks RESP3,
//! so there is no second connection to listen on. A server that lets nobody subscribe is a node without hints.

pub(in crate::node) mod cluster;
mod codec;
mod commands;
#[cfg(test)]
mod differential;
mod fitness;
mod frame;
mod hints;
mod history;
#[cfg(test)]
mod hostile;
mod probe;
mod scripts;
mod seeds;
mod sentinel;
mod trouble;
mod value;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod watch;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisConnectionInfo, Value};
use quorlock_core::node::{Constants, Identity, NodeCommand, Standing};

use crate::node::probe::{Plan, Probe};
use crate::node::{Answer, BoxFuture, Inbox, Node, Question, Session, Trouble};
use crate::platform::sync::Mutex;
pub(crate) use cluster::ClusterNode;
use codec::Bundles;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use codec::take_anything;
use commands::Commands;
use fitness::{Post, identify, info_text, keeps_all, last_promotion};
use scripts::Home;
use sentinel::Sentinels;
use trouble::{describe, malformed, trouble};
use wire::{Connecting, Receiver, Wire};

/// A server that can be connected to.
pub(crate) struct RedisNode {
    title: String,
    origin: Origin,
    constants: Constants,
    connect_deadline: Duration,
}

/// Where the server is.
#[derive(Clone)]
enum Origin {
    /// Always there.
    Server(Box<ConnectionInfo>),
    /// Wherever the sentinels say.
    Sentinels(Arc<Sentinels>),
}

impl Origin {
    fn post(&self) -> Post {
        match self {
            Self::Server(_) => Post::Alone,
            Self::Sentinels(_) => Post::Named,
        }
    }
}

impl RedisNode {
    /// Reads a URL; the login is for one without a password. `constants` are what its scripts are told; the cluster's
    /// name plays no part in them.
    pub(crate) fn new(
        url: &str,
        login: Option<&(String, String)>,
        constants: Constants,
        connect_deadline: Duration,
    ) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| describe(&error))?;
        let settings = seeds::with_login(info.redis_settings(), login);
        let info = info.set_redis_settings(settings);
        if let ConnectionAddr::TcpTls { insecure: true, .. } = info.addr() {
            return Err("#insecure is not supported: certificates are always verified".into());
        }
        let scheme = if url.starts_with("rediss") { "rediss" } else { "redis" };
        let title = match info.addr() {
            ConnectionAddr::Unix(path) => format!("redis+unix:{}", path.display()),
            address => format!("{scheme}://{address}"),
        };
        Ok(Self { title, origin: Origin::Server(Box::new(info)), constants, connect_deadline })
    }

    /// Reads a URL that names sentinels and the service that they watch; the rest as for [`new`](Self::new).
    pub(crate) fn behind_sentinels(
        url: &str,
        login: Option<&(String, String)>,
        constants: Constants,
        connect_deadline: Duration,
    ) -> Result<Self, String> {
        let (title, sentinels) = Sentinels::parse(url, login)?;
        Ok(Self { title, origin: Origin::Sentinels(Arc::new(sentinels)), constants, connect_deadline })
    }
}

impl Node for RedisNode {
    fn title(&self) -> &str {
        &self.title
    }

    fn open(&self, inbox: Inbox) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        let (origin, constants, deadline) = (self.origin.clone(), self.constants.clone(), self.connect_deadline);
        let title = self.title.clone();
        Box::pin(async move {
            let (info, watch) = match &origin {
                Origin::Server(info) => ((**info).clone(), None),
                Origin::Sentinels(sentinels) => {
                    let (info, sentinel) = sentinels.master(deadline).await?;
                    let watch = sentinels.watch(&info, sentinel, inbox.clone());
                    (info, Some(watch))
                }
            };
            let mut connecting = connect(&info, deadline).await?;
            let text = greet(&mut connecting, &info, &title, Home::Server, hints::wanted(&inbox)).await?;
            let (expected, post) = (Arc::new(Mutex::default()), origin.post());
            let identity = identify(&text, post)?;
            let run = identity.run.clone();
            let wire = connecting.start(Ear { expected: Arc::clone(&expected), inbox, post, run });
            let batch = Commands::default();
            Ok(Box::new(RedisSession { wire, expected, constants, identity, batch, _watch: watch }) as Box<dyn Session>)
        })
    }

    fn examine<'a>(&'a self, plan: &'a Plan) -> Pin<Box<dyn Future<Output = Probe> + Send + 'a>> {
        Box::pin(probe::examine(&self.origin, self.connect_deadline, plan))
    }
}

async fn connect(info: &ConnectionInfo, deadline: Duration) -> Result<Connecting, Trouble> {
    match tokio::time::timeout(deadline, Connecting::open(info)).await {
        Ok(opened) => opened.map_err(|error| Trouble::Unreachable(error.to_string())),
        Err(_) => Err(Trouble::Unreachable(format!("no connection within {deadline:?}"))),
    }
}

/// Says who we are, reads what the server says of itself, loads the scripts, and listens for hints and for changes of the
/// server's memory: one round trip.
async fn greet(
    connecting: &mut Connecting,
    info: &ConnectionInfo,
    title: &str,
    home: Home,
    wanted: hints::Wanted,
) -> Result<String, Trouble> {
    let mut pipe = login(info);
    pipe.cmd("INFO");
    let before_info = pipe.len() - 1;
    for script in home.scripts().all() {
        pipe.cmd("SCRIPT").arg("LOAD").arg(&script.source);
    }
    let before_listening = pipe.len();
    // Each is confirmed by exactly one push, which takes the place of a reply.
    for channel in &wanted.channels {
        pipe.cmd("SUBSCRIBE").arg(channel);
    }
    // The last one, because pushes may follow its reply. What changed before it shows in the first look.
    if wanted.tracking {
        pipe.add_command(hints::track(home));
    }
    let replies = connecting.ask(&pipe.get_packed_pipeline(), pipe.len()).await;
    let mut replies = replies.map_err(|error| Trouble::Broken(error.to_string()))?;
    let mut listening = replies.split_off(before_listening);
    if let Some(tracking) = listening.pop_if(|_| wanted.tracking) {
        hints::note_tracking(title, tracking);
    }
    for answer in listening {
        hints::note(title, answer);
    }
    for reply in &replies {
        if let Value::ServerError(error) = reply {
            return Err(trouble(&error.clone().into()));
        }
    }
    replies.into_iter().nth(before_info).and_then(info_text).ok_or_else(|| malformed("INFO"))
}

/// Says who we are, and which protocol we speak.
fn add_hello(pipe: &mut Pipeline, login: &RedisConnectionInfo) {
    let hello = pipe.cmd("HELLO").arg(3);
    if let Some(password) = login.password() {
        hello.arg("AUTH").arg(login.username().unwrap_or("default")).arg(password);
    }
}

/// How a connection to a node begins.
fn login(info: &ConnectionInfo) -> Pipeline {
    let mut pipe = ::redis::pipe();
    let login = info.redis_settings();
    add_hello(&mut pipe, login);
    if login.db() != 0 {
        pipe.cmd("SELECT").arg(login.db());
    }
    pipe
}

struct RedisSession {
    wire: Wire,
    expected: Arc<Mutex<VecDeque<Expected>>>,
    constants: Constants,
    identity: Identity,
    /// What was sent last: its room is used again.
    batch: Commands,
    /// Over the sentinels, if there are any.
    _watch: Option<sentinel::Watch>,
}

/// A question whose answer is still to come.
struct Expected {
    question: Question,
    bundles: Bundles,
    /// The number of commands that were sent for it. Each is answered with one value.
    commands: usize,
    values: Vec<Value>,
}

impl Expected {
    fn new(question: Question, bundles: Bundles, commands: usize) -> Self {
        Self { question, bundles, commands, values: Vec::with_capacity(commands) }
    }
}

impl Session for RedisSession {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn ask(&mut self, question: Question) {
        if let Question::Votes(life, messages) = &question {
            self.batch.clear();
            let bundles = codec::batch(*life, messages, &self.constants, &mut self.batch);
            lock(&self.expected).push_back(Expected::new(question, bundles, self.batch.len()));
            self.wire.send(self.batch.as_bytes());
            return;
        }
        let pipe = commands(&question);
        // Before the question leaves.
        lock(&self.expected).push_back(Expected::new(question, Bundles::default(), pipe.len()));
        self.wire.send(&pipe.get_packed_pipeline());
    }
}

/// The commands for a question that is not for votes.
fn commands(question: &Question) -> Pipeline {
    let home = Home::Server;
    let mut pipe = Pipeline::new();
    match question {
        Question::Votes(..) => {}
        // A look at the node is one at the server, too: somebody may have configured it anew since the handshake.
        Question::NodeCommand(NodeCommand::Look) => {
            pipe = codec::look(home);
            pipe.add_command(fitness::replication()).add_command(fitness::memory());
        }
        Question::NodeCommand(command) => {
            pipe.add_command(codec::node_command(home, command)).add_command(fitness::replication());
        }
        Question::Search(search) => {
            pipe.add_command(codec::search(home, search));
        }
        Question::Note(events) => pipe = history::note(home, events),
        Question::Recall(limit) => pipe = history::recall(home, *limit),
    }
    pipe
}

/// Turns values into answers.
struct Ear {
    expected: Arc<Mutex<VecDeque<Expected>>>,
    inbox: Inbox,
    post: Post,
    run: String,
}

impl Ear {
    fn answer(&self, value: Value) -> Result<Option<Answer>, Trouble> {
        if let Value::Push { kind, data } = value {
            return Ok(hints::heard(self.inbox.channel, &kind, &data));
        }
        let Expected { question, bundles, values, .. } = {
            let mut expected = lock(&self.expected);
            let oldest = expected.front_mut().ok_or_else(|| malformed("nothing"))?;
            oldest.values.push(value);
            if oldest.values.len() < oldest.commands {
                return Ok(None);
            }
            let Some(complete) = expected.pop_front() else { return Ok(None) };
            complete
        };
        let answer = match question {
            Question::Votes(life, messages) => Answer::Votes(codec::replies(life, &messages, bundles, values)?),
            Question::NodeCommand(command) => {
                let mut values = values.into_iter();
                let standing = codec::standing_after(&command, values.by_ref())?;
                self.standing(standing, values)?
            }
            Question::Search(_) => codec::page(values.first().unwrap_or(&Value::Nil))?,
            Question::Note(_) => history::answer(false, values),
            Question::Recall(_) => history::answer(true, values),
        };
        Ok(Some(answer))
    }

    /// How the node stands, and whether the server is still what it was.
    fn standing(&self, standing: Standing, mut values: impl Iterator<Item = Value>) -> Result<Answer, Trouble> {
        let promotion = last_promotion(self.post, values.next().unwrap_or(Value::Nil))?;
        values.try_for_each(keeps_all)?;
        Ok(Answer::Standing(Box::new(standing), Identity { run: self.run.clone(), promotion }))
    }
}

impl Receiver for Ear {
    fn receive(&self, value: Value) {
        match self.answer(value) {
            Ok(Some(answer)) => self.inbox.take(answer),
            Ok(None) => {}
            Err(trouble) => self.inbox.take(Answer::End(trouble)),
        }
    }

    fn is_over(&self) -> bool {
        self.inbox.is_over()
    }

    fn end(&self, error: &io::Error) {
        self.inbox.take(Answer::End(Trouble::Broken(error.to_string())));
    }
}

fn lock(expected: &Mutex<VecDeque<Expected>>) -> MutexGuard<'_, VecDeque<Expected>> {
    expected.lock()
}

#[cfg(test)]
mod tests;
