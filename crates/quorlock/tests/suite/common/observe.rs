//! Observes nodes through a client, and through their own keys.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorlock::{Client, Silence};
use quorlock_testkit::{RedisServer, Reply, eventually_async};

/// The state of a node's memory on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The epoch, in hexadecimal digits.
    pub epoch: String,
    /// The node grants only higher fences; `None` while it must not vote.
    pub floor: Option<u64>,
    /// The name of its cluster.
    pub cluster: String,
    /// The part of the quarantine that has passed.
    pub elapsed: Duration,
    /// Whether the node has a vote for the name, read atomically with the rest.
    pub voted: bool,
}

/// Reads a node's state and its vote for `name` atomically; `None` if the node is blank.
pub fn life(server: &RedisServer, name: &str) -> Option<Life> {
    let look = "return {redis.call('GET', KEYS[1]) or '', redis.call('HGET', KEYS[2], 'cluster') or '',
                redis.call('HGET', KEYS[2], 'elapsed') or '0', tostring(redis.call('EXISTS', KEYS[3]))}";
    let vote = format!("quorlock:{name}");
    let reply = server.command(&["EVAL", look, "3", "quorlock~epoch", "quorlock~meta", &vote]).strings();
    let [mark, cluster, elapsed, voted] = reply.as_slice() else { panic!("four strings, not {reply:?}") };
    let mut mark = mark.split(' ').filter(|part| !part.is_empty());
    Some(Life {
        epoch: mark.next()?.to_owned(),
        floor: mark.next().map(|floor| floor.parse().expect("a floor is a number")),
        cluster: cluster.clone(),
        elapsed: Duration::from_micros(elapsed.parse().expect("a number of microseconds")),
        voted: voted == "1",
    })
}

/// The fence that a server has stored for a name.
pub fn stored_fence(server: &RedisServer, name: &str) -> Option<u64> {
    let note = server.command(&["GET", &fence_key(name)]);
    let (fence, _) = note.as_str()?.split_once(' ')?;
    Some(fence.parse().expect("a stored fence is a number"))
}

/// Raises the fence that a server has stored for a name, like a round that reached no other node.
pub fn lift_fence(server: &RedisServer, name: &str, fence: u64) {
    let note = format!("{fence} {:032x} {fence} ", 0);
    assert_eq!(server.command(&["SET", &fence_key(name), &note]), Reply::Status("OK".into()));
}

fn fence_key(name: &str) -> String {
    format!("quorlock~fence:quorlock:{name}")
}

/// The wall clock, in microseconds: the source of fences.
pub fn wall_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_micros() as u64
}

/// The silence that a client reports for a node.
pub fn trouble(client: &Client, node: usize) -> Option<Silence> {
    client.nodes().swap_remove(node).1
}

/// Waits until a client can use the node.
pub async fn healthy(client: &Client, node: usize) {
    eventually_async(&format!("node {node} to vote"), async || trouble(client, node).is_none()).await;
}

/// Waits until a client has noticed that the node lost its memory.
pub async fn quarantined(client: &Client, node: usize) {
    let is_quarantined = async || trouble(client, node).is_some_and(|why| why.quarantine_left().is_some());
    eventually_async(&format!("node {node} to be quarantined"), is_quarantined).await;
}
