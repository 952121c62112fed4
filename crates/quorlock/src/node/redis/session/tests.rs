use std::sync::OnceLock;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name};
use quorlock_core::node::{Epoch, NodeCommand};
use quorlock_core::request::Request;
use quorlock_core::time::Ttl;
use quorlock_core::vote::Vote;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::node::key::KeyTemplate;
use crate::node::redis::scripts::META_FIELDS;
use crate::node::url::{Address, Server};
use crate::node::{Life, Message, Reply};

const LIFE: Life = Life { epoch: Epoch(7), floor: Fence::new(9) };

/// The questions of a session with this many lanes, and what it answers.
fn cluster(lanes: usize) -> (Inflight, UnboundedReceiver<Answer>) {
    inflight(lanes, Origin::Cluster(Vec::new()))
}

fn inflight(lanes: usize, origin: Origin) -> (Inflight, UnboundedReceiver<Answer>) {
    let (inbox, answers) = Inbox::queue(Channel(0xc));
    (Inflight::new(inbox, lanes, "r1+r2".into(), Arc::new(origin)), answers)
}

fn server() -> Origin {
    Origin::Server(Server { address: Address::Tcp("h".into(), 1), tls: false, login: None, db: 0 })
}

impl Inflight {
    fn ask(&self, question: Question, route: &[usize]) {
        self.expect(question, Bundles::default(), route);
    }

    fn hear(&self, lane: usize, value: Value) {
        self.receive(lane, Ok(value));
    }
}

/// This many plain acquires: OK grants them, nil refuses them.
fn batch(life: Option<Life>, messages: usize) -> Question {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().in_cluster();
    let key = Arc::new(template.key(&Name::new("a").unwrap()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(1), ttl });
    Question::Votes(life, vec![Message { key, request }; messages])
}

/// Which of a batch were granted.
fn grants(answer: Answer) -> Vec<bool> {
    let Answer::Votes(replies) = answer else { panic!("{answer:?}") };
    replies.iter().map(|reply| matches!(reply, Reply::Voted { vote: Vote::Grant { .. }, .. })).collect()
}

#[test]
fn answers_come_in_the_order_of_the_questions_with_their_parts_in_place() {
    let (session, mut answers) = cluster(3);
    session.ask(batch(Some(LIFE), 3), &[2, 0, 2]);
    session.ask(batch(Some(LIFE), 1), &[1]);
    session.ask(batch(Some(LIFE), 2), &[0, 1]);
    session.hear(1, Value::Okay);
    session.hear(1, Value::Okay);
    session.hear(0, Value::Nil);
    session.hear(2, Value::Okay);
    assert!(answers.try_recv().is_err(), "the oldest question has an answer to come");
    session.hear(2, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true, false, true]);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
    assert!(answers.try_recv().is_err());
    session.hear(0, Value::Nil);
    assert_eq!(grants(answers.try_recv().unwrap()), [false, true]);
}

#[test]
fn answers_do_not_overtake_one_that_is_being_delivered() {
    let (sender, heard) = std::sync::mpsc::channel();
    let session: Arc<OnceLock<Inflight>> = Arc::default();
    let late = Arc::clone(&session);
    let inbox = Inbox::new(Channel(0xc), move |answer| {
        let answer = grants(answer).len();
        if answer == 1 {
            // While the first answer is handed over, the second question is answered elsewhere.
            let answers = || (0..2).for_each(|_| late.get().unwrap().hear(1, Value::Okay));
            std::thread::scope(|scope| drop(scope.spawn(answers)));
        }
        sender.send(answer).unwrap();
    });
    let session =
        session.get_or_init(|| Inflight::new(inbox, 2, "r1+r2".into(), Arc::new(Origin::Cluster(Vec::new()))));
    session.ask(batch(Some(LIFE), 1), &[0]);
    session.ask(batch(Some(LIFE), 2), &[1, 1]);
    session.hear(0, Value::Okay);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn without_a_life_nothing_is_granted() {
    let (session, mut answers) = cluster(1);
    session.ask(batch(None, 1), &[0]);
    session.hear(0, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [false]);
}

#[test]
fn one_name_that_has_moved_leaves_the_other_votes() {
    let (session, mut answers) = cluster(2);
    session.ask(batch(Some(LIFE), 2), &[0, 1]);
    session.hear(0, Value::Okay);
    session.hear(1, Value::Error("MOVED 1 127.0.0.1:1".into()));
    let Answer::Votes(replies) = answers.try_recv().unwrap() else { panic!("no replies") };
    assert!(matches!(&replies[..], [Reply::Voted { .. }, Reply::Moved(_)]), "{replies:?}");
}

#[test]
fn every_surprise_is_the_end() {
    let down = || Value::Error("CLUSTERDOWN Hash slot not served".into());
    // To a batch, to the question whether a master is there, to nothing, and the end of a connection.
    for surprise in 0..4 {
        let (session, mut answers) = cluster(2);
        match surprise {
            0 => {
                session.ask(batch(Some(LIFE), 1), &[1]);
                session.hear(1, down());
            }
            1 => {
                session.ask(Question::NodeCommand(claim()), &[0, 0, 1]);
                session.hear(1, down());
                session.hear(0, blank());
                session.hear(0, replication("master", ZEROS));
            }
            2 => session.hear(0, Value::Okay),
            _ => drop(session.receive(0, Err(io::ErrorKind::ConnectionReset.into()))),
        }
        assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))), "surprise {surprise}");
        session.ask(batch(Some(LIFE), 1), &[0]);
        session.hear(0, Value::Okay);
        assert!(answers.try_recv().is_err(), "nothing comes after the end");
    }
}

fn claim() -> NodeCommand {
    NodeCommand::Claim { epoch: Epoch(7), elapsed_micros: 1 }
}

const ZEROS: &str = "0000000000000000000000000000000000000000";

/// How a blank node stands.
fn blank() -> Value {
    // The epoch text of its life, and the fields of meta.
    let words = (0..=META_FIELDS.len()).map(|_| Value::Text(Vec::new()));
    Value::Array([Value::Int(1), Value::Int(5)].into_iter().chain(words).collect())
}

fn replication(role: &str, id: &str) -> Value {
    Value::Text(format!("role:{role}\r\nmaster_replid2:{id}\r\nsecond_repl_offset:7\r\n").into())
}

#[test]
fn a_cluster_is_known_by_the_promotions_of_all_its_masters() {
    let (session, mut answers) = cluster(2);
    session.ask(Question::NodeCommand(claim()), &[1, 0, 1, 0, 1]);
    session.hear(1, blank());
    session.hear(1, replication("master", "bb"));
    session.hear(1, policy("noeviction"));
    session.hear(0, replication("master", "aa"));
    session.hear(0, policy("noeviction"));
    let Answer::Standing(_, identity) = answers.try_recv().unwrap() else { panic!("no standing") };
    assert_eq!(identity, Identity { run: "r1+r2".into(), promotion: "aa:7+bb:7".into() });

    session.ask(Question::NodeCommand(claim()), &[1, 0, 1]);
    session.hear(1, blank());
    session.hear(1, replication("slave", ZEROS));
    session.hear(0, replication("master", ZEROS));
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Unreachable(_)))), "one is a replica by now");
}

fn policy(policy: &str) -> Value {
    Value::Text(format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n").into())
}

#[test]
fn one_master_that_may_forget_is_enough_to_end_it() {
    let (session, mut answers) = cluster(2);
    session.ask(Question::NodeCommand(claim()), &[0, 0, 1, 0, 1]);
    session.hear(0, blank());
    session.hear(0, replication("master", ZEROS));
    session.hear(0, policy("noeviction"));
    session.hear(1, replication("master", ZEROS));
    session.hear(1, policy("volatile-lru"));
    let answer = answers.try_recv().unwrap();
    assert!(matches!(&answer, Answer::End(Trouble::Unfit(why)) if why.contains("volatile-lru")), "{answer:?}");
}

#[test]
fn hints_are_heard_in_between() {
    let (session, mut answers) = cluster(2);
    session.ask(batch(Some(LIFE), 1), &[0]);
    let on = crate::node::redis::scripts::hint_channel(Channel(0xc));
    let push = ["message", &on, "5-0000000000000007"].map(|text| Value::Text(text.into()));
    session.hear(0, Value::Push(push.into()));
    assert!(matches!(answers.try_recv(), Ok(Answer::Hint(..))));
    session.hear(0, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
}

/// A plain acquire on one server is followed by a look at the epoch.
fn with_look(bits: u128) -> Question {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    let key = Arc::new(template.key(&Name::new("job").unwrap()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(bits), ttl });
    Question::Votes(Some(LIFE), vec![Message { key, request }])
}

fn look() -> Value {
    Value::Text(format!("{:032x} {}", LIFE.epoch.0, LIFE.floor).into())
}

#[test]
fn a_batch_is_answered_with_its_last_value() {
    let (session, mut answers) = inflight(1, server());
    session.ask(with_look(1), &[0, 0]);
    session.ask(with_look(2), &[0, 0]);
    session.hear(0, Value::Okay);
    assert!(answers.try_recv().is_err());
    session.hear(0, look());
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
    session.hear(0, Value::Nil);
    assert!(answers.try_recv().is_err());
    session.hear(0, look());
    assert_eq!(grants(answers.try_recv().unwrap()), [false]);
}

#[test]
fn nothing_comes_after_the_end() {
    let (session, mut answers) = inflight(1, server());
    session.ask(with_look(1), &[0, 0]);
    session.ask(with_look(2), &[0, 0]);
    session.hear(0, Value::Int(3));
    assert!(!session.receive(0, Ok(look())), "nobody wants more");
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))));
    // Taken for the answer to the first batch, this would be a vote for a client that has none.
    session.hear(0, Value::Okay);
    session.hear(0, look());
    session.receive(0, Err(io::ErrorKind::ConnectionReset.into()));
    assert!(answers.try_recv().is_err());
}
