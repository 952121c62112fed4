use std::sync::OnceLock;
use std::time::Duration;

use ::redis::PushKind;
use quorlock_core::fence::Fence;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::node::{Epoch, NodeCommand};
use quorlock_core::ticket::Channel;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{Request, Vote};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::node::key::KeyTemplate;
use crate::node::redis::scripts::META_FIELDS;
use crate::node::{Life, Message, Reply};

const LIFE: Life = Life { epoch: Epoch(7), floor: Fence::new(9) };

/// A desk, an ear for each of so many connections, and what is heard.
fn desk(lanes: usize) -> (Arc<Reorder>, Vec<Ear>, UnboundedReceiver<Answer>) {
    let (inbox, answers) = Inbox::queue(Channel(0xc));
    let desk = Arc::new(Reorder::new(inbox, lanes, "r1+r2".into()));
    let ears = (0..lanes).map(|lane| Ear::new(lane, &desk)).collect();
    (desk, ears, answers)
}

/// So many plain acquires: granted by OK, refused by nothing.
fn batch(life: Option<Life>, messages: usize) -> Question {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().in_cluster();
    let key = Arc::new(template.key(&Name::new("a").unwrap()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(1), ttl });
    Question::Votes(life, vec![Message { key, request }; messages])
}

fn claim() -> Question {
    Question::NodeCommand(NodeCommand::Claim { epoch: LIFE.epoch, elapsed_micros: 0 })
}

/// Which of a batch were granted.
fn grants(answer: Answer) -> Vec<bool> {
    let Answer::Votes(replies) = answer else { panic!("{answer:?}") };
    replies.iter().map(|reply| matches!(reply, Reply::Voted { vote: Vote::Grant { .. }, .. })).collect()
}

#[test]
fn answers_come_in_the_order_of_the_questions_with_their_parts_in_place() {
    let (desk, ears, mut answers) = desk(3);
    desk.expect(batch(Some(LIFE), 3), &[2, 0, 2]);
    desk.expect(batch(Some(LIFE), 1), &[1]);
    desk.expect(batch(Some(LIFE), 2), &[0, 1]);
    ears[1].receive(Value::Okay);
    ears[1].receive(Value::Okay);
    ears[0].receive(Value::Nil);
    ears[2].receive(Value::Okay);
    assert!(answers.try_recv().is_err(), "the oldest question has an answer to come");
    ears[2].receive(Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true, false, true]);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
    assert!(answers.try_recv().is_err());
    ears[0].receive(Value::Nil);
    assert_eq!(grants(answers.try_recv().unwrap()), [false, true]);
}

#[test]
fn whoever_answers_while_an_answer_is_handed_over_does_not_overtake_it() {
    let (sender, heard) = std::sync::mpsc::channel();
    let other: Arc<OnceLock<Ear>> = Arc::default();
    let late = Arc::clone(&other);
    let inbox = Inbox::new(Channel(0xc), move |answer| {
        let answer = grants(answer).len();
        if answer == 1 {
            // On its way to whoever asked first, the second question is answered elsewhere.
            let answers = || (0..2).for_each(|_| late.get().unwrap().receive(Value::Okay));
            std::thread::scope(|scope| drop(scope.spawn(answers)));
        }
        sender.send(answer).unwrap();
    });
    let desk = Arc::new(Reorder::new(inbox, 2, "r1+r2".into()));
    let first = Ear::new(0, &desk);
    assert!(other.set(Ear::new(1, &desk)).is_ok());
    desk.expect(batch(Some(LIFE), 1), &[0]);
    desk.expect(batch(Some(LIFE), 2), &[1, 1]);
    first.receive(Value::Okay);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn without_a_life_nothing_is_granted() {
    let (desk, ears, mut answers) = desk(1);
    desk.expect(batch(None, 1), &[0]);
    ears[0].receive(Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [false]);
}

#[test]
fn one_name_that_has_moved_leaves_the_other_votes() {
    let (desk, ears, mut answers) = desk(2);
    desk.expect(batch(Some(LIFE), 2), &[0, 1]);
    ears[0].receive(Value::Okay);
    ears[1].receive(::redis::parse_redis_value(b"-MOVED 1 127.0.0.1:1\r\n").unwrap());
    let Answer::Votes(replies) = answers.try_recv().unwrap() else { panic!("no replies") };
    assert!(matches!(&replies[..], [Reply::Voted { .. }, Reply::Moved(_)]), "{replies:?}");
}

#[test]
fn every_surprise_is_the_end() {
    let down = || ::redis::parse_redis_value(b"-CLUSTERDOWN Hash slot not served\r\n").unwrap();
    // To a batch, to the question whether a master is there, to nothing, and the end of a connection.
    for surprise in 0..4 {
        let (desk, ears, mut answers) = desk(2);
        match surprise {
            0 => {
                desk.expect(batch(Some(LIFE), 1), &[1]);
                ears[1].receive(down());
            }
            1 => {
                desk.expect(claim(), &[0, 0, 1]);
                ears[1].receive(down());
                ears[0].receive(blank());
                ears[0].receive(replication("master", ZEROS));
            }
            2 => ears[0].receive(Value::Okay),
            _ => ears[0].end(&io::ErrorKind::ConnectionReset.into()),
        }
        assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))), "surprise {surprise}");
        desk.expect(batch(Some(LIFE), 1), &[0]);
        ears[0].receive(Value::Okay);
        assert!(answers.try_recv().is_err(), "nothing comes after the end");
    }
}

const ZEROS: &str = "0000000000000000000000000000000000000000";

/// How a blank node stands.
fn blank() -> Value {
    // The mark of its life, and the fields of meta.
    let words = (0..=META_FIELDS.len()).map(|_| Value::BulkString(Vec::new()));
    Value::Array([Value::Int(1), Value::Int(5)].into_iter().chain(words).collect())
}

fn replication(role: &str, id: &str) -> Value {
    Value::BulkString(format!("role:{role}\r\nmaster_replid2:{id}\r\nsecond_repl_offset:7\r\n").into())
}

#[test]
fn a_cluster_is_known_by_the_promotions_of_all_its_masters() {
    let (desk, ears, mut answers) = desk(2);
    desk.expect(claim(), &[1, 0, 1, 0, 1]);
    ears[1].receive(blank());
    ears[1].receive(replication("master", "bb"));
    ears[1].receive(policy("noeviction"));
    ears[0].receive(replication("master", "aa"));
    ears[0].receive(policy("noeviction"));
    let Answer::Standing(_, identity) = answers.try_recv().unwrap() else { panic!("no standing") };
    assert_eq!(identity, Identity { run: "r1+r2".into(), promotion: "aa:7+bb:7".into() });

    desk.expect(claim(), &[1, 0, 1]);
    ears[1].receive(blank());
    ears[1].receive(replication("slave", ZEROS));
    ears[0].receive(replication("master", ZEROS));
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Unreachable(_)))), "one is a replica by now");
}

fn policy(policy: &str) -> Value {
    Value::BulkString(format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n").into())
}

#[test]
fn one_master_that_may_forget_is_enough_to_end_it() {
    let (desk, ears, mut answers) = desk(2);
    desk.expect(claim(), &[0, 0, 1, 0, 1]);
    ears[0].receive(blank());
    ears[0].receive(replication("master", ZEROS));
    ears[0].receive(policy("noeviction"));
    ears[1].receive(replication("master", ZEROS));
    ears[1].receive(policy("volatile-lru"));
    let answer = answers.try_recv().unwrap();
    assert!(matches!(&answer, Answer::End(Trouble::Unfit(why)) if why.contains("volatile-lru")), "{answer:?}");
}

#[test]
fn hints_are_heard_in_between() {
    let (desk, ears, mut answers) = desk(2);
    desk.expect(batch(Some(LIFE), 1), &[0]);
    let on = crate::node::redis::scripts::hint_channel(Channel(0xc));
    let data = vec![Value::BulkString(on.into()), Value::BulkString("5-0000000000000007".into())];
    ears[0].receive(Value::Push { kind: PushKind::Message, data });
    assert!(matches!(answers.try_recv(), Ok(Answer::Hint(..))));
    ears[0].receive(Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
}
