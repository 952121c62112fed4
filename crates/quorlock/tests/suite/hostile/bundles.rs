//! Invalid replies to commands with several requests: one invalid element makes the whole reply invalid.

use futures_util::future::join_all;
use quorlock::{Client, Lease};

use super::fake::{Behavior, Bundle, FakeNode, Stage, now};
use super::invalid_replies::InvalidReply;
use super::resp::{array, bulk, group, int, push};
use super::{SHORT_DEADLINE, constants, for_each_case, try_lock};
use crate::common::long_timeouts::{self, ProxiedCluster};
use crate::common::{builder, observe};

/// The number of concurrent acquires. It is high enough for some acquires to share a command.
const CONCURRENT_ACQUIRES: usize = 24;

/// Makes a nearly valid reply from the clock and the proposed fences.
type MakeReply = fn(i64, &[i64]) -> Vec<u8>;

/// Acquires several locks with different names at once. Returns the leases.
async fn acquire_together(client: &Client, name: &str) -> Vec<Lease> {
    let names: Vec<String> = (0..CONCURRENT_ACQUIRES).map(|caller| format!("{name}-{caller}")).collect();
    join_all(names.iter().map(|name| try_lock(client, name, false))).await.into_iter().flatten().collect()
}

/// The elements of a valid reply.
fn elements(clock: i64, fences: &[i64]) -> Vec<Vec<u8>> {
    [&[clock], fences].concat().into_iter().map(int).collect()
}

/// A valid reply in which `last` replaces the last element.
fn with_last_element(clock: i64, fences: &[i64], last: Vec<u8>) -> Vec<u8> {
    let mut elements = elements(clock, fences);
    elements.pop();
    elements.push(last);
    array(&elements)
}

const NEARLY_VALID_LISTS: [(&str, MakeReply); 19] = [
    ("one grant instead of a list", |_, _| int(1)),
    ("one status instead of a list", |_, _| b"+OK\r\n".to_vec()),
    ("a null instead of a list", |_, _| b"_\r\n".to_vec()),
    ("an error instead of a list", |_, _| b"-ERR no\r\n".to_vec()),
    ("a clock without fences", |clock, _| array(&[int(clock)])),
    ("fences without a clock", |_, fences| array(&elements(0, fences)[1..])),
    ("fences with a clock as a string", |clock, fences| {
        array(&[vec![bulk(&clock.to_string())], elements(0, fences)[1..].to_vec()].concat())
    }),
    ("fences with a negative clock", |_, fences| array(&elements(-1, fences))),
    ("one fence too few", |clock, fences| array(&elements(clock, &fences[1..]))),
    ("one fence too many", |clock, fences| array(&elements(clock, &[fences, &[1]].concat()))),
    ("fences as a set", |clock, fences| group('~', &elements(clock, fences))),
    ("fences as a push", |clock, fences| push(&[vec![bulk("message")], elements(clock, fences)].concat())),
    ("fences in a nested list", |clock, fences| array(&[array(&elements(clock, fences))])),
    ("fences, of which the last is a string", |clock, fences| with_last_element(clock, fences, bulk("1"))),
    ("fences, of which the last is negative", |clock, fences| with_last_element(clock, fences, int(-1))),
    ("fences, of which the last is the lowest 64-bit number", |clock, fences| {
        with_last_element(clock, fences, int(i64::MIN))
    }),
    ("fences, of which the last is null", |clock, fences| with_last_element(clock, fences, b"_\r\n".to_vec())),
    ("fences, of which the last is a list with a grant code only", |clock, fences| {
        with_last_element(clock, fences, array(&[int(1)]))
    }),
    ("fences, of which the last is a nested list", |clock, fences| {
        with_last_element(clock, fences, array(&[array(&[int(1)])]))
    }),
];

/// Behaviors that send a nearly valid reply to a command with several acquires, and refuse an acquire in a command of
/// its own, which has six keys.
fn nearly_valid_replies() -> Vec<InvalidReply> {
    NEARLY_VALID_LISTS
        .map(|(name, make_reply)| {
            let reply = move |words: &[Vec<u8>]| match Bundle::parse(words) {
                Some(Bundle::Acquires(proposals)) => make_reply(now(), &proposals),
                Some(Bundle::Releases(count)) => array(&vec![int(1); count]),
                None if words[0] == b"EVALSHA" && words[2] == b"6" => {
                    array(&[int(0), int(now()), int(1_000), int(1), bulk(""), int(0), int(0), int(0)])
                }
                None => int(1),
            };
            (name.to_owned(), Behavior::compute(reply))
        })
        .to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_fake_grants_several_requests_of_one_command() {
    let fake = FakeNode::start(None, Stage::Vote, Behavior::BehaveWell).await;
    let client = long_timeouts::builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    long_timeouts::expect_soon(async {
        while fake.bundle_count() == 0 {
            assert_eq!(acquire_together(&client, "job").await.len(), CONCURRENT_ACQUIRES);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_with_one_invalid_element_grants_no_request_of_its_command() {
    for_each_case(nearly_valid_replies(), &[Stage::Vote], async |_, case, stage, behavior| {
        let fake = FakeNode::start(None, stage, behavior).await;
        let client = builder().node_deadline(SHORT_DEADLINE).nodes([fake.url()]).connect_lazy().await.unwrap();
        observe::wait_until_node_votes(&client, 0).await;
        // The link may send each request alone, so acquire until some requests have shared a command.
        while fake.bundle_count() == 0 {
            let leases = acquire_together(&client, "job").await;
            assert!(leases.is_empty(), "{case}: {leases:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_majority_grants_all_requests_of_one_command() {
    let cluster = ProxiedCluster::start(3).await;
    for_each_case(nearly_valid_replies(), &[Stage::Vote], async |index, case, stage, behavior| {
        let fake = FakeNode::start(Some(constants(&cluster.servers[0])), stage, behavior).await;
        let nodes = [fake.url(), cluster.servers[1].url(), cluster.servers[2].url()];
        let client = long_timeouts::builder().nodes(nodes).connect_lazy().await.unwrap();
        for node in [1, 2] {
            observe::wait_until_node_votes(&client, node).await;
        }
        while fake.bundle_count() == 0 {
            let leases = acquire_together(&client, &format!("job-{index}")).await;
            assert_eq!(leases.len(), CONCURRENT_ACQUIRES, "{case}");
            join_all(leases.into_iter().map(Lease::release)).await;
        }
    })
    .await;
    cluster.wait_until_unlocked().await;
}
