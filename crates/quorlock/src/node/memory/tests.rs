use std::time::Duration;

use quorlock_core::name::{LeaseId, Name};
use quorlock_core::node::roster::{ClusterId, Life as MemoryLife, Roster, RosterAnswer, RosterCommand, Settings};
use quorlock_core::node::{Constants, NodeCommand};
use quorlock_core::quorum::MemberId;
use quorlock_core::request::Request;
use quorlock_core::vote::Refusal;
use quorlock_testkit::eventually_async;

use super::*;
use crate::node::RequestReply;
use crate::node::key::KeyTemplate;
use crate::{AcquireError, Client};

async fn client(nodes: &MemoryNodes) -> Client {
    Client::builder().memory(nodes).node_deadline(Duration::from_millis(200)).connect_lazy().await.unwrap()
}

/// Returns whether a node has granted a vote for this name. The node first answers all earlier requests.
async fn is_held(client: &Client, node: usize, name: &str) -> Option<bool> {
    let inspection = client.inspect(name).await.ok()?;
    Some(inspection.nodes[node].1.as_ref().ok()?.held.is_some())
}

#[tokio::test]
async fn a_frozen_node_is_silent_and_answers_pending_requests_after_a_thaw() {
    let nodes = MemoryNodes::new(1);
    let client = client(&nodes).await;
    nodes.freeze(0);
    let error = client.lock("a").try_acquire().await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
    let lock = client.lock("b");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    nodes.thaw(0);
    let lease = waiting.await.unwrap().unwrap();
    // The node executed the acquire that failed, and then its release.
    assert_eq!(is_held(&client, 0, "a").await, Some(false));
    assert_eq!(is_held(&client, 0, "b").await, Some(true));
    drop(lease);
}

#[tokio::test]
async fn a_thawed_node_executes_the_requests_of_a_client_that_has_disconnected() {
    let nodes = MemoryNodes::new(1);
    let disconnected = client(&nodes).await;
    let lock = disconnected.lock("a");
    nodes.freeze(0);
    let acquire = tokio::spawn(async move { lock.acquire().await.map(drop) });
    eventually_async("the acquire reaches the node", async || !nodes.nodes[0].state.lock().unanswered.is_empty()).await;
    // The acquire is pending on the node. The release is lost with the connection.
    let pending = std::mem::take(&mut nodes.nodes[0].state.lock().unanswered);
    acquire.abort();
    disconnected.close(Duration::ZERO).await.unwrap_err();
    nodes.nodes[0].state.lock().unanswered = pending;
    nodes.thaw(0);
    let other = client(&nodes).await;
    assert_eq!(is_held(&other, 0, "a").await, Some(true));
}

#[tokio::test]
async fn a_frozen_node_accepts_no_connection_before_it_is_thawed_or_restarted() {
    let nodes = MemoryNodes::new(1);
    for resume in [MemoryNodes::thaw, MemoryNodes::restart_empty] {
        nodes.freeze(0);
        let builder = Client::builder().memory(&nodes);
        let connecting = tokio::spawn(builder.connect_lazy());
        tokio::task::yield_now().await;
        resume(&nodes, 0);
        let client = connecting.await.unwrap().unwrap();
        eventually_async("the node is connected", async || client.nodes()[0].1.is_none()).await;
    }
}

#[test]
fn expired_tombstones_and_records_are_swept() {
    let mut state = NodeMemory::new();
    let constants = Constants { cluster: "c".into(), nodes: 1, max_ttl_millis: 1_000, max_skew_micros: 0 };
    let init = NodeCommand::Init { identity: state.identity.clone(), fresh: Epoch(1), constants };
    state.answer(Question::NodeCommand(init), NodeTime::wall(0));
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    for millis in 0..10_000_u64 {
        let name = if millis % 2 == 0 { "same".into() } else { format!("{millis}") };
        let key = Arc::new(template.key(&Name::new(&name).unwrap()).unwrap());
        let attempt = LeaseId::from_bits(u128::from(millis));
        let request = Request::Release { attempt, tombstone: Some(10), parting: None }.into();
        let message = Message { key, request };
        state.answer(Question::Votes(None, vec![message]), NodeTime::wall(millis * 1_000));
    }
    let tombstones: usize = state.records.values().map(|record| record.tombstones.len()).sum();
    assert!(tombstones < 1_100 && state.records.len() < 1_100, "{tombstones} on {} names", state.records.len());
}

/// Returns a cluster that consists of this member.
fn roster(member: MemberId) -> Roster {
    let (max_ttl_millis, max_skew_micros) = (60_000, 10_000_000);
    let settings = Settings { max_ttl_millis, max_skew_micros, key_template: "".into(), trusts_restarts: false };
    Roster::of_every_seat(ClusterId(1), 1, vec![(member, "memory:0".into())], settings, None).unwrap()
}

async fn roster_command(session: &mut RequestReply, command: RosterCommand) -> RosterAnswer {
    let identity = session.identity().clone();
    let (answer, now) = session.roster_command(command).await.unwrap();
    assert_eq!(now, identity);
    answer
}

#[tokio::test]
async fn a_node_votes_by_its_roster() {
    let nodes = MemoryNodes::new(1);
    let mut session = RequestReply::open(&nodes.nodes[0], Channel(0)).await.unwrap();
    let (member, life, identity) = (MemberId(1), MemoryLife(7), session.identity().clone());
    let identify = RosterCommand::Identify { identity, member, life, floor_offset: 0 };
    assert!(roster_command(&mut session, identify).await.accepted);
    let first = roster(member);
    assert!(roster_command(&mut session, RosterCommand::Install(Arc::new(first.clone()))).await.accepted);
    let claim = RosterCommand::Claim { life, since: 1, elapsed_micros: first.quarantine_micros() };
    let membership = roster_command(&mut session, claim).await.membership.unwrap();
    assert!(membership.is_voting());

    let key = KeyTemplate::default().key(&Name::new("a").unwrap()).unwrap();
    let ttl = quorlock_core::time::Ttl::new(Duration::from_secs(1), Duration::MAX).unwrap();
    let message = Message {
        key: Arc::new(key),
        request: Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(1), ttl }),
    };
    let asked = Some(Life { epoch: membership.epoch(), floor: membership.floor.unwrap() });
    assert!(session.send(asked, vec![message.clone()]).await.unwrap()[0].is_grant());
    let second = first.successor(&quorlock_core::node::roster::Change::default()).unwrap();
    assert!(roster_command(&mut session, RosterCommand::Install(Arc::new(second))).await.accepted);
    let replies = session.send(asked, vec![message]).await.unwrap();
    assert!(matches!(&replies[0], Reply::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. }), "{replies:?}");

    nodes.restart_empty(0);
    let mut session = RequestReply::open(&nodes.nodes[0], Channel(0)).await.unwrap();
    assert_eq!(roster_command(&mut session, RosterCommand::Read).await.membership, None);
}
