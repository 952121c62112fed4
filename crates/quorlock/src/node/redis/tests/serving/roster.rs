//! Roster commands on servers, and votes under an earlier roster.

use quorlock_core::node::roster::{Change, Membership, RosterCommand};
use quorlock_testkit::RedisCluster;

use super::*;
use crate::node::roster_history::RosterHistory;
use crate::node::{Answer, Inbox, Question};

async fn execute(session: &mut RequestReply, command: RosterCommand) -> Membership {
    let (answer, identity) = session.roster_command(command).await.unwrap();
    assert!(answer.accepted);
    assert_eq!(identity, *session.identity());
    answer.membership.unwrap()
}

/// Gives the node a roster under which it votes.
async fn found(session: &mut RequestReply) -> Membership {
    let identity = session.identity().clone();
    let [identify, install, claim] = RosterHistory::default().founding(identity, 0, false);
    execute(session, identify).await;
    execute(session, install).await;
    execute(session, claim).await
}

fn life_of(membership: &Membership) -> Life {
    Life { epoch: membership.epoch(), floor: membership.floor.unwrap() }
}

/// Returns a command that installs the next roster, without a change of the members.
fn install_next(membership: &Membership) -> RosterCommand {
    let next = membership.roster.as_ref().unwrap().successor(&Change::default()).unwrap();
    RosterCommand::Install(Arc::new(next))
}

#[tokio::test]
async fn requests_under_an_earlier_roster_are_refused_and_votes_stay() {
    let server = RedisServer::start();
    let mut session = RequestReply::open(&RedisNode::at(&server.url(), constants()), Channel(0)).await.unwrap();
    let first = found(&mut session).await;
    let template = crate::node::key::KeyTemplate::default();
    let message = |name: &str, request: Request| {
        let key = template.key(&quorlock_core::name::Name::new(name).unwrap()).unwrap();
        Message { key: Arc::new(key), request: Arc::new(request) }
    };
    let (attempt, ttl) = (LeaseId::from_bits(1), Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap());
    let acquire = |name| {
        let (proposal, holder, mode) = (Fence::new(1), "7 host ".into(), Mode::EXCLUSIVE);
        message(name, Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: None })
    };
    let renew = |name| {
        let (fence, holder, mode) = (Fence::new(1), "7 host ".into(), Mode::EXCLUSIVE);
        message(name, Request::Renew { attempt, fence, ttl, repair: true, holder, mode })
    };
    let shared = || {
        let (proposal, holder) = (Fence::new(1), "7 host ".into());
        let mode = Mode::Shared { owner: OwnerId::from_bits(5), reenters: false };
        message("shared", Request::Acquire { attempt, proposal, ttl, holder, mode, waiter: None })
    };
    let check = || message("a", Request::Check { attempt, slot: None });
    let batches = || {
        [
            vec![acquire("a")],
            vec![acquire("b"), acquire("c")],
            vec![renew("a"), renew("b")],
            vec![shared(), check()],
            vec![message("plain", Request::PlainAcquire { attempt, ttl })],
        ]
    };
    for batch in batches() {
        let replies = session.send(Some(life_of(&first)), batch).await.unwrap();
        let is_vote =
            |reply: &Reply| reply.is_grant() || matches!(reply, Reply::Voted { vote: Vote::Standing { .. }, .. });
        assert!(replies.iter().all(is_vote), "{replies:?}");
    }

    let second = execute(&mut session, install_next(&first)).await;
    assert!(second.is_voting() && second.floor == first.floor);
    for batch in batches() {
        let replies = session.send(Some(life_of(&first)), batch).await.unwrap();
        let is_new_roster =
            |reply: &Reply| matches!(reply, Reply::Voted { vote: Vote::Refusal(Refusal::NewRoster), .. });
        assert!(replies.iter().all(is_new_roster), "{replies:?}");
    }
    let replies = session.send(Some(life_of(&second)), vec![check(), renew("b")]).await.unwrap();
    assert!(matches!(replies[0], Reply::Voted { vote: Vote::Standing { .. }, .. }) && replies[1].is_grant());
    let other_life = Life { epoch: Epoch(second.epoch().0 ^ 1 << 64), floor: Fence::new(1) };
    let replies = session.send(Some(other_life), vec![acquire("d")]).await.unwrap();
    assert!(matches!(replies[0], Reply::Voted { vote: Vote::Refusal(Refusal::WrongEpoch), .. }), "{replies:?}");
}

#[tokio::test]
async fn a_redis_cluster_stores_its_membership_in_the_slot_of_its_epoch() {
    let cluster = RedisCluster::start(2);
    let node = RedisNode::at(&cluster.url(), constants());
    let mut session = RequestReply::open(&node, Channel(0)).await.unwrap();
    assert_eq!(session.roster_command(RosterCommand::Read).await.unwrap().0.membership, None);
    let first = found(&mut session).await;
    assert_eq!(first.identity, *session.identity());
    let second = execute(&mut session, install_next(&first)).await;
    let mut other = RequestReply::open(&node, Channel(0)).await.unwrap();
    assert_eq!(execute(&mut other, RosterCommand::Read).await, second);
}

#[tokio::test]
async fn clients_hear_of_a_new_roster_and_not_of_other_commands() {
    let server = RedisServer::start();
    let node = RedisNode::at(&server.url(), constants());
    let mut operator = RequestReply::open(&node, Channel(0)).await.unwrap();
    let first = found(&mut operator).await;
    let (inbox, mut answers) = Inbox::queue(CHANNEL);
    let mut client = node.open(inbox).await.unwrap();
    for (command, is_heard) in
        [(RosterCommand::Settle { generation: 1 }, false), (install_next(&first), true), (RosterCommand::Read, false)]
    {
        execute(&mut operator, command.clone()).await;
        // A push arrives before the answer to a later question.
        client.ask(Question::Roster(RosterCommand::Read));
        let first_answer = answers.recv().await.unwrap();
        assert_eq!(first_answer == Answer::MemoryChanged, is_heard, "{command:?}: {first_answer:?}");
        if is_heard {
            answers.recv().await.unwrap();
        }
    }
}
