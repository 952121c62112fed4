//! Observes nodes: reads the silences that a client reports, and the state that a node stores on its server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorlock::{Client, Silence};
use quorlock_testkit::{RedisServer, Reply, eventually_async};

/// The state that a node has stored on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredState {
    /// The epoch, in hexadecimal digits.
    pub epoch: String,
    /// The floor: the node grants only higher fences. `None` while the node must not vote.
    pub floor: Option<u64>,
    /// The name of the node's cluster.
    pub cluster: String,
    /// How much of the quarantine has elapsed, according to the reports of clients.
    pub quarantine_elapsed: Duration,
    /// Whether the node has a vote for the name.
    pub has_vote: bool,
}

/// Reads the state of a node, and whether the node has a vote for `name`, in one step. Returns `None` if the server has
/// no epoch: it is new, or its data was deleted.
pub fn stored_state(server: &RedisServer, name: &str) -> Option<StoredState> {
    let script = "return {redis.call('GET', KEYS[1]) or '', redis.call('HGET', KEYS[2], 'cluster') or '',
                  redis.call('HGET', KEYS[2], 'elapsed') or '0', tostring(redis.call('EXISTS', KEYS[3]))}";
    let lock_key = format!("quorlock:{name}");
    let reply = server.command(&["EVAL", script, "3", "quorlock~epoch", "quorlock~meta", &lock_key]).strings();
    let [epoch_and_floor, cluster, quarantine_elapsed, has_vote] = reply.as_slice() else {
        panic!("the reply is not four strings: {reply:?}")
    };
    let mut epoch_and_floor = epoch_and_floor.split(' ').filter(|part| !part.is_empty());
    Some(StoredState {
        epoch: epoch_and_floor.next()?.to_owned(),
        floor: epoch_and_floor.next().map(|floor| floor.parse().expect("a floor is a number")),
        cluster: cluster.clone(),
        quarantine_elapsed: Duration::from_micros(quarantine_elapsed.parse().expect("the elapsed time is a number")),
        has_vote: has_vote == "1",
    })
}

/// The fence that a server has stored for a name.
pub fn stored_fence(server: &RedisServer, name: &str) -> Option<u64> {
    let record = server.command(&["GET", &fence_key(name)]);
    let (fence, _) = record.as_str()?.split_once(' ')?;
    Some(fence.parse().expect("a stored fence is a number"))
}

/// Raises the fence that a server has stored for a name, like a round that reached only this server.
pub fn raise_stored_fence(server: &RedisServer, name: &str, fence: u64) {
    let record = format!("{fence} {:032x} {fence} ", 0);
    assert_eq!(server.command(&["SET", &fence_key(name), &record]), Reply::Status("OK".into()));
}

fn fence_key(name: &str) -> String {
    format!("quorlock~fence:quorlock:{name}")
}

/// The wall clock in microseconds. Nodes derive fences from it.
pub fn wall_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970").as_micros() as u64
}

/// The silence of a node that a client reports; `None` if the node can vote.
pub fn silence_of(client: &Client, node: usize) -> Option<Silence> {
    client.nodes().swap_remove(node).1
}

/// Waits until the client knows that the node can vote.
pub async fn wait_until_node_votes(client: &Client, node: usize) {
    eventually_async(&format!("node {node} to vote"), async || silence_of(client, node).is_none()).await;
}

/// Waits until the client has noticed that the node lost its memory.
pub async fn wait_until_quarantined(client: &Client, node: usize) {
    let is_quarantined = async || silence_of(client, node).is_some_and(|silence| silence.quarantine_left().is_some());
    eventually_async(&format!("node {node} to be quarantined"), is_quarantined).await;
}
