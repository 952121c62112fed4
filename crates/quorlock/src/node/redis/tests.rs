mod serving;

use quorlock_core::fence::Fence;
use quorlock_core::name::{LeaseId, Name};
use quorlock_core::node::Epoch;
use quorlock_core::ticket::Channel;
use quorlock_core::time::Ttl;
use quorlock_core::vote::{Request, Vote};
use tokio::sync::mpsc;

use super::*;
use crate::node::key::{KeyTemplate, LockKey};
use crate::node::{Life, Message, Reply};

const LIFE: Life = Life { epoch: Epoch(7), floor: Fence::new(9) };
const MASTER: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrole:master\r\nmaster_replid:def\r\nmaster_replid2:0000\r\nsecond_repl_offset:-1\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\n";

#[test]
fn a_master_is_known_by_its_run_and_its_promotion() {
    assert_eq!(identify(MASTER, Post::Alone), Ok(Identity::of_run("abc")), "zeros are no promotion");
    let promoted = MASTER.replace("replid2:0000", "replid2:0b00").replace("offset:-1", "offset:15");
    let identity = Identity { run: "abc".into(), promotion: "0b00:15".into() };
    assert_eq!(identify(&promoted, Post::Alone), Ok(identity));
    let promotion = last_promotion(Post::Alone, Value::BulkString(promoted.clone().into()));
    assert_eq!(promotion, Ok("0b00:15".into()));
    let demoted = promoted.replace("role:master", "role:slave");
    assert!(matches!(last_promotion(Post::Alone, Value::BulkString(demoted.into())), Err(Trouble::Unfit(_))));
}

#[test]
fn unfit_servers_are_refused_with_the_reason() {
    for (from, to, says) in [
        ("7.0.15", "6.0.9", "6.2"),
        ("role:master", "role:slave", "replica"),
        ("cluster_enabled:0", "cluster_enabled:1", "Cluster"),
        ("noeviction", "allkeys-lru", "allkeys-lru"),
        ("run_id:abc", "run_id:", "run_id"),
        ("master_replid2:0000\r\n", "", "master_replid2"),
        ("master_replid2:0000", "master_replid2:a+b", "master_replid2"),
        ("second_repl_offset:-1\r\n", "", "second_repl_offset"),
    ] {
        let Err(Trouble::Unfit(why)) = identify(&MASTER.replace(from, to), Post::Alone) else {
            panic!("{to} was accepted")
        };
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn a_server_that_may_forget_by_now_is_refused_like_one_that_always_did() {
    let says = |text: &str| keeps_all(Value::BulkString(text.into()));
    assert_eq!(says(MASTER), Ok(()));
    let Err(Trouble::Unfit(why)) = says(&MASTER.replace("noeviction", "volatile-ttl")) else { panic!("it was kept") };
    assert!(why.contains("volatile-ttl"), "{why}");
    assert!(matches!(says("# Memory\r\n"), Err(Trouble::Unfit(_))), "it does not say");
    assert!(matches!(keeps_all(Value::Okay), Err(Trouble::Broken(_))), "it says something else");
}

#[test]
fn what_a_failover_leaves_for_a_while_is_not_the_operators_mistake() {
    let replica = MASTER.replace("role:master", "role:slave");
    assert!(matches!(identify(&replica, Post::Named), Err(Trouble::Unreachable(_))));
    let member = MASTER.replace("cluster_enabled:0", "cluster_enabled:1");
    assert_eq!(identify(&member, Post::Cluster), Ok(Identity::of_run("abc")));
    assert!(matches!(identify(&member, Post::Named), Err(Trouble::Unfit(_))));
    assert!(matches!(identify(MASTER, Post::Cluster), Err(Trouble::Unfit(_))));
    let replica = member.replace("role:master", "role:slave");
    assert!(matches!(identify(&replica, Post::Cluster), Err(Trouble::Unreachable(_))));
}

#[test]
fn certificates_that_are_not_to_be_verified_are_refused_before_anything_is_sent() {
    let constants = Constants { cluster: String::new(), nodes: 1, max_ttl_millis: 1, max_skew_micros: 1 };
    let new = |url: &str| RedisNode::new(url, None, constants.clone(), Duration::from_secs(1)).map(drop);
    assert_eq!(new("rediss://127.0.0.1"), Ok(()));
    assert!(new("rediss://127.0.0.1/#insecure").unwrap_err().contains("#insecure"));
}

#[test]
fn a_title_never_shows_the_password() {
    let constants = Constants { cluster: String::new(), nodes: 1, max_ttl_millis: 1, max_skew_micros: 1 };
    let node = RedisNode::new("redis://user:hunter2@127.0.0.1:7000/3", None, constants.clone(), Duration::from_secs(1))
        .unwrap();
    assert_eq!(node.title(), "redis://127.0.0.1:7000");
    let error = RedisNode::new("redis://user:hunter2@:x", None, constants, Duration::from_secs(1)).err().unwrap();
    assert!(!error.contains("hunter2"), "{error}");
}

/// An ear that expects the answers to so many batches, each of one plain acquire and a look at the epoch.
fn ear(batches: usize) -> (Ear, mpsc::UnboundedReceiver<Answer>) {
    let ttl = Ttl::new(Duration::from_secs(60), Duration::MAX).unwrap();
    let message = |bits| Message {
        key: key(),
        request: Arc::new(Request::PlainAcquire { attempt: LeaseId::from_bits(bits), ttl }),
    };
    let messages = (0..batches).map(|batch| vec![message(batch as u128)]);
    let expected = messages.map(|messages| Expected::new(Question::Votes(Some(LIFE), messages), Bundles::default(), 2));
    let (inbox, answers) = Inbox::queue(Channel(0));
    let expected = Arc::new(Mutex::new(expected.collect()));
    (Ear { expected, inbox, post: Post::Alone, run: "abc".into() }, answers)
}

fn key() -> Arc<LockKey> {
    let template = KeyTemplate::new(KeyTemplate::DEFAULT).unwrap();
    Arc::new(template.key(&Name::new("job").unwrap()).unwrap())
}

fn look() -> Value {
    Value::BulkString(format!("{:032x} {}", LIFE.epoch.0, LIFE.floor).into())
}

#[test]
fn a_batch_is_answered_with_its_last_value() {
    let (ear, mut answers) = ear(2);
    ear.receive(Value::Okay);
    assert!(answers.try_recv().is_err());
    ear.receive(look());
    let granted = Reply::Voted { vote: Vote::grant(Fence::default()), at_micros: None };
    assert_eq!(answers.try_recv(), Ok(Answer::Votes(vec![granted])));
    ear.receive(Value::Nil);
    assert!(answers.try_recv().is_err());
    ear.receive(look());
    let answer = answers.try_recv().unwrap();
    assert!(
        matches!(&answer, Answer::Votes(replies) if matches!(replies[..], [Reply::Voted { vote: Vote::Refusal(_), .. }])),
        "{answer:?}"
    );
}

#[test]
fn nothing_comes_after_the_end() {
    let (ear, mut answers) = ear(2);
    ear.receive(Value::Int(3));
    ear.receive(look());
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))));
    // Taken for the answer to the first batch, this would be a vote for somebody who has none.
    ear.receive(Value::Okay);
    ear.receive(look());
    ear.end(&io::ErrorKind::ConnectionReset.into());
    assert!(answers.try_recv().is_err());
}

#[test]
fn an_answer_to_no_question_is_the_end() {
    let (ear, mut answers) = ear(0);
    ear.receive(Value::Okay);
    assert!(matches!(answers.try_recv(), Ok(Answer::End(Trouble::Broken(_)))));
}

#[test]
fn the_doctors_probe_tries_every_command_of_every_script() {
    let commands = |source: &str| {
        let calls = source.split("call('").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.0.to_owned()));
        calls.collect::<std::collections::BTreeSet<String>>()
    };
    let probe = &scripts::PROBE.source;
    for command in scripts::Home::Server.scripts().all().into_iter().flat_map(|script| commands(&script.source)) {
        assert!(probe.contains(&format!("'{command}'")), "{command} is not tried");
    }
}
