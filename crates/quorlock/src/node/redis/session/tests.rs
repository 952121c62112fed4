use std::sync::OnceLock;
use std::time::Duration;

use quorlock_core::fence::Fence;
use quorlock_core::name::{Channel, LeaseId, Name};
use quorlock_core::node::{Epoch, NodeCommand};
use quorlock_core::request::Request;
use quorlock_core::time::Ttl;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::node::key::KeyTemplate;
use crate::node::redis::scripts::META_FIELDS;
use crate::node::url::{Address, Server};
use crate::node::{Life, Message, Reply};

/// The life of the node's memory in these tests.
const CURRENT_LIFE: Life = Life { epoch: Epoch(7), floor: Fence::new(9) };

/// Returns the pending questions of a session with this many masters of a Redis Cluster, and the delivered answers.
fn inflight_in_cluster(lanes: usize) -> (Inflight, UnboundedReceiver<Answer>) {
    inflight_of(lanes, Origin::Cluster(Vec::new()))
}

fn inflight_of(lanes: usize, origin: Origin) -> (Inflight, UnboundedReceiver<Answer>) {
    let (inbox, answers) = Inbox::queue(Channel(0xc));
    (Inflight::new(inbox, lanes, "r1+r2".into(), Arc::new(origin)), answers)
}

fn server_origin() -> Origin {
    Origin::Server(Server { address: Address::Tcp("h".into(), 1), tls: false, login: None, db: 0 })
}

impl Inflight {
    fn ask(&self, question: Question, lanes: &[usize]) {
        self.expect(question, Bundles::default(), lanes);
    }

    fn receive_value(&self, lane: usize, value: Value) {
        self.receive(lane, Ok(value));
    }
}

/// Returns a question of this many plain acquires. The reply OK grants an acquire, and nil refuses it.
fn batch(life: Option<Life>, messages: usize) -> Question {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap().in_cluster();
    let key = Arc::new(template.key(&Name::new("a").unwrap()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(1), ttl });
    Question::Votes(life, vec![Message { key, request }; messages])
}

/// Returns, for each request of a batch, whether the node granted the request.
fn grants(answer: Answer) -> Vec<bool> {
    let Answer::Votes(replies) = answer else { panic!("{answer:?}") };
    replies.iter().map(Reply::is_grant).collect()
}

#[test]
fn answers_are_delivered_in_the_order_of_their_questions() {
    let (inflight, mut answers) = inflight_in_cluster(3);
    inflight.ask(batch(Some(CURRENT_LIFE), 3), &[2, 0, 2]);
    inflight.ask(batch(Some(CURRENT_LIFE), 1), &[1]);
    inflight.ask(batch(Some(CURRENT_LIFE), 2), &[0, 1]);
    inflight.receive_value(1, Value::Okay);
    inflight.receive_value(1, Value::Okay);
    inflight.receive_value(0, Value::Nil);
    inflight.receive_value(2, Value::Okay);
    assert!(answers.try_recv().is_err(), "a value of the oldest question is still missing");
    inflight.receive_value(2, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true, false, true]);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
    assert!(answers.try_recv().is_err());
    inflight.receive_value(0, Value::Nil);
    assert_eq!(grants(answers.try_recv().unwrap()), [false, true]);
}

#[test]
fn an_answer_does_not_overtake_an_answer_that_is_being_delivered() {
    let (sender, request_counts) = std::sync::mpsc::channel();
    let cell: Arc<OnceLock<Inflight>> = Arc::default();
    let inbox_cell = Arc::clone(&cell);
    let inbox = Inbox::new(Channel(0xc), move |answer| {
        let requests = grants(answer).len();
        if requests == 1 {
            // While the first answer is delivered, another thread receives the second answer.
            let receive_second = || (0..2).for_each(|_| inbox_cell.get().unwrap().receive_value(1, Value::Okay));
            std::thread::scope(|scope| drop(scope.spawn(receive_second)));
        }
        sender.send(requests).unwrap();
    });
    let inflight = cell.get_or_init(|| Inflight::new(inbox, 2, "r1+r2".into(), Arc::new(Origin::Cluster(Vec::new()))));
    inflight.ask(batch(Some(CURRENT_LIFE), 1), &[0]);
    inflight.ask(batch(Some(CURRENT_LIFE), 2), &[1, 1]);
    inflight.receive_value(0, Value::Okay);
    assert_eq!(request_counts.try_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_question_without_a_life_gets_no_grant() {
    let (inflight, mut answers) = inflight_in_cluster(1);
    inflight.ask(batch(None, 1), &[0]);
    inflight.receive_value(0, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [false]);
}

#[test]
fn a_moved_name_does_not_affect_the_votes_about_other_names() {
    let (inflight, mut answers) = inflight_in_cluster(2);
    inflight.ask(batch(Some(CURRENT_LIFE), 2), &[0, 1]);
    inflight.receive_value(0, Value::Okay);
    inflight.receive_value(1, Value::Error("MOVED 1 127.0.0.1:1".into()));
    let Answer::Votes(replies) = answers.try_recv().unwrap() else { panic!("no replies") };
    assert!(matches!(&replies[..], [Reply::Voted { .. }, Reply::Moved(_)]), "{replies:?}");
}

#[test]
fn an_unexpected_reply_or_a_connection_error_ends_the_session() {
    let down = || Value::Error("CLUSTERDOWN Hash slot not served".into());
    // An error instead of a vote, an error instead of a state, a reply without a request, and a connection error.
    for case in 0..4 {
        let (inflight, mut answers) = inflight_in_cluster(2);
        match case {
            0 => {
                inflight.ask(batch(Some(CURRENT_LIFE), 1), &[1]);
                inflight.receive_value(1, down());
            }
            1 => {
                inflight.ask(Question::NodeCommand(claim()), &[0, 0, 1]);
                inflight.receive_value(1, down());
                inflight.receive_value(0, blank_standing());
                inflight.receive_value(0, replication_info("master", NO_PROMOTION));
            }
            2 => inflight.receive_value(0, Value::Okay),
            _ => drop(inflight.receive(0, Err(io::ErrorKind::ConnectionReset.into()))),
        }
        assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))), "case {case}");
        inflight.ask(batch(Some(CURRENT_LIFE), 1), &[0]);
        inflight.receive_value(0, Value::Okay);
        assert!(answers.try_recv().is_err(), "something was delivered after the end of the session");
    }
}

fn claim() -> NodeCommand {
    NodeCommand::Claim { epoch: Epoch(7), elapsed_micros: 1 }
}

/// The `master_replid2` of a server that was never promoted.
const NO_PROMOTION: &str = "0000000000000000000000000000000000000000";

/// Returns the state of a blank node, as the node's script replies it.
fn blank_standing() -> Value {
    // The content of the epoch key, and the fields of the meta key.
    let fields = (0..=META_FIELDS.len()).map(|_| Value::Text(Vec::new()));
    Value::Array([Value::Int(1), Value::Int(5)].into_iter().chain(fields).collect())
}

/// Returns the reply of a server to `INFO replication`.
fn replication_info(role: &str, id: &str) -> Value {
    Value::Text(format!("role:{role}\r\nmaster_replid2:{id}\r\nsecond_repl_offset:7\r\n").into())
}

#[test]
fn the_identity_of_a_redis_cluster_contains_the_promotions_of_all_masters() {
    let (inflight, mut answers) = inflight_in_cluster(2);
    inflight.ask(Question::NodeCommand(claim()), &[1, 0, 1, 0, 1]);
    inflight.receive_value(1, blank_standing());
    inflight.receive_value(1, replication_info("master", "bb"));
    inflight.receive_value(1, memory_info("noeviction"));
    inflight.receive_value(0, replication_info("master", "aa"));
    inflight.receive_value(0, memory_info("noeviction"));
    let Answer::Standing(_, identity) = answers.try_recv().unwrap() else { panic!("no standing") };
    assert_eq!(identity, Identity { run: "r1+r2".into(), promotion: "aa:7+bb:7".into() });

    inflight.ask(Question::NodeCommand(claim()), &[1, 0, 1]);
    inflight.receive_value(1, blank_standing());
    inflight.receive_value(1, replication_info("slave", NO_PROMOTION));
    inflight.receive_value(0, replication_info("master", NO_PROMOTION));
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Unreachable(_)))), "one master is now a replica");
}

/// Returns the reply of a server with this eviction policy to `INFO memory`.
fn memory_info(policy: &str) -> Value {
    Value::Text(format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n").into())
}

#[test]
fn one_master_that_may_evict_keys_ends_the_session() {
    let (inflight, mut answers) = inflight_in_cluster(2);
    inflight.ask(Question::NodeCommand(claim()), &[0, 0, 1, 0, 1]);
    inflight.receive_value(0, blank_standing());
    inflight.receive_value(0, replication_info("master", NO_PROMOTION));
    inflight.receive_value(0, memory_info("noeviction"));
    inflight.receive_value(1, replication_info("master", NO_PROMOTION));
    inflight.receive_value(1, memory_info("volatile-lru"));
    let answer = answers.try_recv().unwrap();
    assert!(matches!(&answer, Answer::End(Trouble::Unfit(why)) if why.contains("volatile-lru")), "{answer:?}");
}

#[test]
fn a_hint_may_arrive_before_the_answer_to_an_earlier_question() {
    let (inflight, mut answers) = inflight_in_cluster(2);
    inflight.ask(batch(Some(CURRENT_LIFE), 1), &[0]);
    let channel = crate::node::redis::scripts::hint_channel(Channel(0xc));
    let push = ["message", &channel, "5-0000000000000007"].map(|text| Value::Text(text.into()));
    inflight.receive_value(0, Value::Push(push.into()));
    assert!(matches!(answers.try_recv(), Ok(Answer::Hint(..))));
    inflight.receive_value(0, Value::Okay);
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
}

/// Returns a question of one plain acquire to a single server. A read of the epoch follows the acquire.
fn acquire_with_epoch_read(bits: u128) -> Question {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    let key = Arc::new(template.key(&Name::new("job").unwrap()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let request = Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(bits), ttl });
    Question::Votes(Some(CURRENT_LIFE), vec![Message { key, request }])
}

fn epoch_text_value() -> Value {
    Value::Text(format!("{:032x} {}", CURRENT_LIFE.epoch.0, CURRENT_LIFE.floor).into())
}

#[test]
fn a_batch_is_answered_when_its_last_value_arrives() {
    let (inflight, mut answers) = inflight_of(1, server_origin());
    inflight.ask(acquire_with_epoch_read(1), &[0, 0]);
    inflight.ask(acquire_with_epoch_read(2), &[0, 0]);
    inflight.receive_value(0, Value::Okay);
    assert!(answers.try_recv().is_err());
    inflight.receive_value(0, epoch_text_value());
    assert_eq!(grants(answers.try_recv().unwrap()), [true]);
    inflight.receive_value(0, Value::Nil);
    assert!(answers.try_recv().is_err());
    inflight.receive_value(0, epoch_text_value());
    assert_eq!(grants(answers.try_recv().unwrap()), [false]);
}

#[test]
fn nothing_is_delivered_after_the_end_of_a_session() {
    let (inflight, mut answers) = inflight_of(1, server_origin());
    inflight.ask(acquire_with_epoch_read(1), &[0, 0]);
    inflight.ask(acquire_with_epoch_read(2), &[0, 0]);
    inflight.receive_value(0, Value::Int(3));
    assert!(!inflight.receive(0, Ok(epoch_text_value())), "the connection must stop reading");
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))));
    // If these values answered the first batch, the client would count a vote that it does not have.
    inflight.receive_value(0, Value::Okay);
    inflight.receive_value(0, epoch_text_value());
    inflight.receive(0, Err(io::ErrorKind::ConnectionReset.into()));
    assert!(answers.try_recv().is_err());
}
