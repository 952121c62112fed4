//! A server seen by whoever wants to know what is wrong with it: one question after the other, and every refusal noted.

use std::collections::HashMap;
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value, cmd};
use quorlock_core::name::LeaseId;
use quorlock_core::node::NodeCommand;
use quorlock_core::ticket::Channel;

use super::fitness::{fitness, identity};
use super::scripts::{
    Home, PROBE, broken_channel, fence_key, hint_channel, holds_key, kept_key, queue_key, tombstone_key,
};
use super::wire::Connecting;
use super::{Origin, codec, connect, describe, hints, login, malformed, trouble};
use crate::node::key::LockKey;
use crate::node::probe::{Objection, Plan, Probe, READINGS, Reading, RedisFacts};
use crate::node::{STEP_DEADLINE, Trouble};
use crate::platform::clock;
use crate::platform::entropy;

/// What `INFO` does not tell.
const SETTINGS: [&str; 5] = ["maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save"];

/// Everything that can be seen of the server with this login.
pub(super) async fn examine(origin: &Origin, deadline: Duration, plan: &Plan) -> Probe {
    let mut probe = Probe::default();
    if let Err(trouble) = look(origin, deadline, plan, &mut probe).await {
        probe.trouble = Some(trouble);
    }
    probe
}

async fn look(origin: &Origin, deadline: Duration, plan: &Plan, probe: &mut Probe) -> Result<(), Trouble> {
    let info = match origin {
        Origin::Server(info) => (**info).clone(),
        Origin::Sentinels(sentinels) => sentinels.master(deadline).await?.0,
    };
    let mut visit = Visit { connection: connect(&info, deadline).await? };
    for answer in visit.ask_all(&login(&info)).await? {
        if let Value::ServerError(error) = answer {
            return Err(trouble(&error.into()));
        }
    }
    probe.first = visit.readings(&mut probe.redis.get_or_insert_default().objections).await?;
    let facts = probe.redis.get_or_insert_default();
    facts.read_info(visit.ask(&cmd("INFO")).await?);
    for setting in SETTINGS {
        facts.read_setting(setting, visit.ask(cmd("CONFIG").arg("GET").arg(setting)).await?);
    }
    if !facts.info.is_empty() {
        facts.unfit = fitness(origin.post(), |name| facts.field(name)).err();
    }
    probe.server = facts.server();
    probe.identity = identity(|name| facts.field(name)).ok();
    for script in Home::Server.scripts().all().into_iter().chain([&*PROBE]) {
        let answer = visit.ask(cmd("SCRIPT").arg("LOAD").arg(&script.source)).await?;
        if facts.object("SCRIPT LOAD", None, answer).is_none() {
            return Ok(());
        }
    }
    let answer = visit.ask(&codec::node_command(Home::Server, &NodeCommand::Look)).await?;
    let keys = format!("the node's own keys {} and {}", Home::Server.epoch_key(), Home::Server.meta_key());
    if let Some(answer) = facts.object("EVALSHA", Some(keys), answer) {
        probe.standing = Some(codec::standing(answer)?);
    }
    if let Some(key) = plan.key.as_ref().filter(|_| facts.is_master()) {
        visit.probe(key, facts).await?;
    }
    if !plan.watch.is_zero() {
        tokio::time::sleep(plan.watch).await;
        probe.last = visit.readings(&mut Vec::new()).await?;
    }
    visit.listen(facts).await
}

struct Visit {
    connection: Connecting,
}

impl Visit {
    async fn ask(&mut self, command: &Cmd) -> Result<Value, Trouble> {
        let answers = self.hear(&command.get_packed_command(), 1).await?;
        answers.into_iter().next().ok_or_else(|| malformed("a command"))
    }

    async fn ask_all(&mut self, pipe: &Pipeline) -> Result<Vec<Value>, Trouble> {
        self.hear(&pipe.get_packed_pipeline(), pipe.len()).await
    }

    async fn hear(&mut self, bytes: &[u8], values: usize) -> Result<Vec<Value>, Trouble> {
        let asked = tokio::time::timeout(STEP_DEADLINE, self.connection.ask(bytes, values)).await;
        let answers = asked.map_err(|_| Trouble::Unreachable(format!("no answer within {STEP_DEADLINE:?}")))?;
        answers.map_err(|error| Trouble::Broken(error.to_string()))
    }

    async fn readings(&mut self, objections: &mut Vec<Objection>) -> Result<Vec<Reading>, Trouble> {
        let mut readings = Vec::new();
        for _ in 0..READINGS {
            let sent = clock::now();
            let answer = self.ask(&cmd("TIME")).await?;
            let heard = clock::now();
            let Some(at_micros) = time(&answer) else {
                objections.extend(objection("TIME", None, &answer));
                break;
            };
            readings.push(Reading { sent, heard, at_micros });
        }
        Ok(readings)
    }

    /// Does with keys of its own, and a channel that nobody hears, what is done with those of locks.
    async fn probe(&mut self, key: &LockKey, facts: &mut RedisFacts) -> Result<(), Trouble> {
        let channel = hint_channel(Channel(entropy::bits()));
        let own = |companion: String| {
            let pattern = companion.replace(&key.text, "*");
            (companion, pattern)
        };
        let tombstone = tombstone_key(key, LeaseId::from_bits(entropy::bits()));
        let tombstones = tombstone.rsplit_once(':').map_or_else(String::new, |(kind, _)| format!("{kind}:*"));
        let keys = [
            (key.text.clone(), "locks".to_owned()),
            own(fence_key(key)),
            own(holds_key(key)),
            own(queue_key(key)),
            own(kept_key(key)),
            (tombstone, tombstones),
        ];
        for (key, pattern) in keys {
            let mut command = cmd("EVALSHA");
            let answer = self.ask(command.arg(&PROBE.sha).arg(1).arg(&key).arg(&channel)).await?;
            if let Some(Value::Array(said)) = facts.object("EVALSHA", Some(format!("keys of {pattern}")), answer) {
                for pair in said.chunks(2) {
                    let [Value::BulkString(command), Value::BulkString(why)] = pair else { continue };
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    facts.note(Objection { command: text(command), on: None, why: text(why) });
                }
            }
        }
        Ok(())
    }

    /// The last question of all: what is heard from then on may be anything.
    async fn listen(&mut self, facts: &mut RedisFacts) -> Result<(), Trouble> {
        let answer = self.ask(&hints::track(Home::Server)).await?;
        facts.object("CLIENT TRACKING", None, answer);
        for channel in [hint_channel(Channel(entropy::bits())), broken_channel()] {
            let heard = self.ask(cmd("SUBSCRIBE").arg(&channel)).await?;
            facts.object("SUBSCRIBE", Some(channel), heard);
        }
        Ok(())
    }
}

impl RedisFacts {
    fn read_info(&mut self, answer: Value) {
        let text = match self.object("INFO", None, answer) {
            Some(Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Some(Value::VerbatimString { text, .. }) => text,
            _ => return,
        };
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        self.info = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    }

    fn read_setting(&mut self, setting: &str, answer: Value) {
        let pairs: HashMap<String, String> = match self.object("CONFIG GET", None, answer) {
            Some(answer) => ::redis::from_redis_value(answer).unwrap_or_default(),
            None => return,
        };
        self.config.extend(pairs.into_iter().filter(|(name, _)| name == setting));
    }

    /// The answer, unless it is an objection.
    fn object(&mut self, command: &str, on: Option<String>, answer: Value) -> Option<Value> {
        match objection(command, on, &answer) {
            Some(objection) => {
                self.note(objection);
                None
            }
            None => Some(answer),
        }
    }

    /// Each of them once.
    fn note(&mut self, objection: Objection) {
        if !self.objections.contains(&objection) {
            self.objections.push(objection);
        }
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    fn is_master(&self) -> bool {
        self.field("role") == "master" && self.field("cluster_enabled") != "1"
    }

    fn server(&self) -> Option<String> {
        let valkey = self.field("valkey_version");
        match (valkey, self.field("redis_version")) {
            ("", "") => None,
            ("", redis) => Some(format!("Redis {redis}")),
            (valkey, _) => Some(format!("Valkey {valkey}")),
        }
    }
}

fn objection(command: &str, on: Option<String>, answer: &Value) -> Option<Objection> {
    let Value::ServerError(error) = answer else { return None };
    Some(Objection { command: command.into(), on, why: describe(&error.clone().into()) })
}

fn time(answer: &Value) -> Option<u64> {
    let (seconds, micros): (u64, u64) = ::redis::from_redis_value(answer.clone()).ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}
