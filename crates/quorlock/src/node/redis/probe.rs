//! Examines a server for `quorlock doctor`: sends one command at a time and records every refusal.

use std::time::Duration;

use quorlock_core::name::{Channel, LeaseId};
use quorlock_core::node::NodeCommand;

use super::fitness::{field, identify, identity, info_text};
use super::resp::{Commands, Value};
use super::scripts::{BROKEN_CHANNEL, PROBE, ServerKind, companion, companion_key, hint_channel, tombstone_key};
use super::trouble::{checked, describe, malformed};
use super::wire::Connecting;
use super::{codec, hints, write_login};
use crate::node::probe::{Objection, Plan, Probe, READINGS, Reading, RedisFacts};
use crate::node::url::Origin;
use crate::node::{LockKey, STEP_DEADLINE, Trouble, within};
use crate::platform::{clock, entropy};

/// Settings that `INFO` does not report.
const SETTINGS: [&str; 5] = ["maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save"];

/// Collects all facts about the server that the login of the node's URL may read.
pub(super) async fn examine(origin: &Origin, deadline: Duration, plan: &Plan) -> Probe {
    let mut probe = Probe::default();
    probe.trouble = collect_facts(origin, deadline, plan, &mut probe).await.err();
    probe
}

async fn collect_facts(origin: &Origin, deadline: Duration, plan: &Plan, probe: &mut Probe) -> Result<(), Trouble> {
    let server = match origin {
        Origin::Server(server) => server.clone(),
        Origin::Sentinels(sentinels) => sentinels.master(deadline).await?.0,
        Origin::Cluster(_) => return Err(Trouble::Unfit("a Redis Cluster is not one server".into())),
    };
    let mut examination =
        Examination { connection: Connecting::open(&server, deadline).await?, commands: Commands::default() };
    write_login(&server, &mut examination.commands);
    for value in examination.send().await? {
        checked(value)?;
    }
    let facts = probe.redis.get_or_insert_default();
    probe.first = examination.read_clock(facts).await?;
    if let Some(Ok(info)) = facts.accept("INFO", None, examination.ask("INFO", &[]).await?).map(info_text) {
        facts.info = info;
    }
    for setting in SETTINGS {
        let answer = examination.ask("CONFIG", &["GET", setting]).await?;
        if let Some(Value::Map(pair)) = facts.accept("CONFIG GET", None, answer)
            && let [name, value] = pair.as_slice()
            && name.as_str() == Some(setting)
            && let Some(value) = value.as_str()
        {
            facts.config.insert(setting.to_owned(), value.to_owned());
        }
    }
    if !facts.info.is_empty() {
        facts.unfit = identify(&facts.info, origin).err();
    }
    probe.server = facts.server();
    probe.identity = identity(&facts.info).ok();
    for script in ServerKind::Server.scripts().iter().chain([&*PROBE]) {
        let answer = examination.ask("SCRIPT", &["LOAD", &script.source]).await?;
        if facts.accept("SCRIPT LOAD", None, answer).is_none() {
            return Ok(());
        }
    }
    codec::script_call(ServerKind::Server, &NodeCommand::Look, &mut examination.commands);
    let answer = examination.send_one().await?;
    let keys = format!("the node's own keys {} and {}", ServerKind::Server.epoch_key(), ServerKind::Server.meta_key());
    if let Some(answer) = facts.accept("EVALSHA", Some(keys), answer) {
        probe.standing = Some(codec::standing(&answer)?);
    }
    if let Some(key) = plan.key.as_ref().filter(|_| facts.is_master()) {
        examination.try_lock_commands(key, facts).await?;
    }
    if !plan.watch.is_zero() {
        tokio::time::sleep(plan.watch).await;
        probe.last = examination.read_clock(&mut RedisFacts::default()).await?;
    }
    examination.try_subscriptions(facts).await
}

/// A connection for an examination.
struct Examination {
    connection: Connecting,
    /// The commands to send next.
    commands: Commands,
}

impl Examination {
    /// Sends this command, and returns its reply.
    async fn ask(&mut self, command: &str, words: &[&str]) -> Result<Value, Trouble> {
        self.commands.command(command).words(words);
        self.send_one().await
    }

    /// Sends one command, and returns its reply.
    async fn send_one(&mut self) -> Result<Value, Trouble> {
        self.send().await?.pop().ok_or_else(|| malformed("a command"))
    }

    /// Sends the commands, and returns their replies.
    async fn send(&mut self) -> Result<Vec<Value>, Trouble> {
        let values = within(STEP_DEADLINE, self.connection.ask(&mut self.commands)).await?;
        self.commands.clear();
        Ok(values)
    }

    /// Reads the server's clock several times. Records a refusal in `facts`.
    async fn read_clock(&mut self, facts: &mut RedisFacts) -> Result<Vec<Reading>, Trouble> {
        let mut readings = Vec::new();
        for _ in 0..READINGS {
            let sent = clock::now();
            let answer = self.ask("TIME", &[]).await?;
            let heard = clock::now();
            let Some(at_micros) = codec::time_micros(&answer) else {
                facts.accept("TIME", None, answer);
                break;
            };
            readings.push(Reading { sent, heard, at_micros });
        }
        Ok(readings)
    }

    /// Tries the commands of locks on unused keys and on a channel without subscribers.
    async fn try_lock_commands(&mut self, key: &LockKey, facts: &mut RedisFacts) -> Result<(), Trouble> {
        let channel = hint_channel(Channel(entropy::bits()));
        let with_pattern = |companion: String| {
            let pattern = companion.replace(&key.text, "*");
            (companion, pattern)
        };
        let tombstone = tombstone_key(key, LeaseId::from_bits(entropy::bits()));
        let tombstones = tombstone.rsplit_once(':').map_or_else(String::new, |(kind, _)| format!("{kind}:*"));
        let keys = [
            (key.text.clone(), "locks".to_owned()),
            with_pattern(companion_key(companion::FENCE, key)),
            with_pattern(companion_key(companion::HOLDS, key)),
            with_pattern(companion_key(companion::QUEUE, key)),
            with_pattern(companion_key(companion::KEPT, key)),
            (tombstone, tombstones),
        ];
        for (key, pattern) in keys {
            let answer = self.ask("EVALSHA", &[&PROBE.sha, "1", &key, &channel]).await?;
            if let Some(Value::Array(refusals)) = facts.accept("EVALSHA", Some(format!("keys of {pattern}")), answer) {
                for pair in refusals.chunks(2) {
                    let [Value::Text(command), Value::Text(why)] = pair else { continue };
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    facts.record(Objection { command: text(command), on: None, why: text(why) });
                }
            }
        }
        Ok(())
    }

    /// Tries to subscribe. This must be the last step: afterwards pushes may arrive between replies.
    async fn try_subscriptions(&mut self, facts: &mut RedisFacts) -> Result<(), Trouble> {
        hints::write_tracking(ServerKind::Server, &mut self.commands);
        let answer = self.send_one().await?;
        facts.accept("CLIENT TRACKING", None, answer);
        for channel in [hint_channel(Channel(entropy::bits())), BROKEN_CHANNEL.to_owned()] {
            let answer = self.ask("SUBSCRIBE", &[&channel]).await?;
            facts.accept("SUBSCRIBE", Some(channel), answer);
        }
        Ok(())
    }
}

impl RedisFacts {
    /// Returns the answer, unless it is a refusal. Records a refusal and returns `None`.
    fn accept(&mut self, command: &str, on: Option<String>, answer: Value) -> Option<Value> {
        let Value::Error(error) = answer else { return Some(answer) };
        self.record(Objection { command: command.into(), on, why: describe(&error) });
        None
    }

    /// Records a refusal once.
    fn record(&mut self, objection: Objection) {
        if !self.objections.contains(&objection) {
            self.objections.push(objection);
        }
    }

    pub(crate) fn field(&self, name: &str) -> &str {
        field(&self.info, name)
    }

    fn is_master(&self) -> bool {
        self.field("role") == "master" && self.field("cluster_enabled") != "1"
    }

    fn server(&self) -> Option<String> {
        match (self.field("valkey_version"), self.field("redis_version")) {
            ("", "") => None,
            ("", redis) => Some(format!("Redis {redis}")),
            (valkey, _) => Some(format!("Valkey {valkey}")),
        }
    }
}
