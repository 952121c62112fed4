//! Replies to commands with several requests: a list with one error grants nothing.

use futures_util::future::join_all;
use quorlock::{Client, Lease};

use super::fake::{Bundle, Deed, Fake, From, now};
use super::malice::Malice;
use super::resp::{array, bulk, group, int, push};
use super::{IMPATIENT, constants, for_each, try_lock};
use crate::common::long::{self, Wired};
use crate::common::{builder, observe};

/// Enough for some requests to share a command.
const CALLERS: usize = 24;

/// A reply that is nearly valid, from the clock and the proposed fences.
type Mangle = fn(i64, &[i64]) -> Vec<u8>;

/// Acquires all at once, each with a name of its own.
async fn acquire_together(client: &Client, name: &str) -> Vec<Lease> {
    let names: Vec<String> = (0..CALLERS).map(|caller| format!("{name}-{caller}")).collect();
    join_all(names.iter().map(|name| try_lock(client, name, false))).await.into_iter().flatten().collect()
}

fn ints(clock: i64, fences: &[i64]) -> Vec<Vec<u8>> {
    [&[clock], fences].concat().into_iter().map(int).collect()
}

/// The same list with another last element.
fn ending(clock: i64, fences: &[i64], last: Vec<u8>) -> Vec<u8> {
    let mut parts = ints(clock, fences);
    parts.pop();
    parts.push(last);
    array(&parts)
}

const MANGLED: [(&str, Mangle); 19] = [
    ("one yes for all", |_, _| int(1)),
    ("one word for all", |_, _| b"+OK\r\n".to_vec()),
    ("nothing for all", |_, _| b"_\r\n".to_vec()),
    ("an error for all", |_, _| b"-ERR no\r\n".to_vec()),
    ("nobody's fences", |clock, _| array(&[int(clock)])),
    ("fences without a clock", |_, fences| array(&ints(0, fences)[1..])),
    ("fences with a clock in a text", |clock, fences| {
        array(&[vec![bulk(&clock.to_string())], ints(0, fences)[1..].to_vec()].concat())
    }),
    ("fences before time", |_, fences| array(&ints(-1, fences))),
    ("a fence too few", |clock, fences| array(&ints(clock, &fences[1..]))),
    ("a fence too many", |clock, fences| array(&ints(clock, &[fences, &[1]].concat()))),
    ("fences as a set", |clock, fences| group('~', &ints(clock, fences))),
    ("fences as a push", |clock, fences| push(&[vec![bulk("message")], ints(clock, fences)].concat())),
    ("fences inside a list", |clock, fences| array(&[array(&ints(clock, fences))])),
    ("fences, the last in a text", |clock, fences| ending(clock, fences, bulk("1"))),
    ("fences, the last below nothing", |clock, fences| ending(clock, fences, int(-1))),
    ("fences, the last of all numbers in the end", |clock, fences| ending(clock, fences, int(i64::MIN))),
    ("fences, and nothing in the end", |clock, fences| ending(clock, fences, b"_\r\n".to_vec())),
    ("fences, and a code without words in the end", |clock, fences| ending(clock, fences, array(&[int(1)]))),
    ("fences, and a list in a list in the end", |clock, fences| ending(clock, fences, array(&[array(&[int(1)])]))),
];

/// Sends this to commands with several requests, and "held" to all others.
fn mangled() -> Vec<Malice> {
    MANGLED
        .map(|(name, mangle)| {
            let say = move |words: &[Vec<u8>]| match Bundle::of(words) {
                Some(Bundle::Acquires(proposals)) => mangle(now(), &proposals),
                Some(Bundle::Releases(count)) => array(&vec![int(1); count]),
                None if words[0] == b"EVALSHA" && words[2] == b"6" => {
                    array(&[int(0), int(now()), int(1_000), int(1), bulk(""), int(0), int(0), int(0)])
                }
                None => int(1),
            };
            (name.to_owned(), Deed::mangle(say))
        })
        .to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_well_behaved_fake_grants_requests_of_one_command() {
    let fake = Fake::start(None, From::Vote, Deed::Behave).await;
    let client = long::builder().nodes([fake.url()]).connect_lazy().await.unwrap();
    long::soon(async {
        while fake.bundles() == 0 {
            assert_eq!(acquire_together(&client, "job").await.len(), CALLERS);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_with_one_error_grants_nothing() {
    for_each(mangled(), &[From::Vote], async |_, named, from, deed| {
        let fake = Fake::start(None, from, deed).await;
        let client = builder().node_deadline(IMPATIENT).nodes([fake.url()]).connect_lazy().await.unwrap();
        observe::healthy(&client, 0).await;
        // The first request is sent alone.
        while fake.bundles() == 0 {
            let won = acquire_together(&client, "job").await;
            assert!(won.is_empty(), "{named}: {won:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_command_win_by_a_well_behaved_majority() {
    let cluster = Wired::ready(3).await;
    for_each(mangled(), &[From::Vote], async |index, named, from, deed| {
        let fake = Fake::start(Some(constants(&cluster.servers[0])), from, deed).await;
        let nodes = [fake.url(), cluster.servers[1].url(), cluster.servers[2].url()];
        let client = long::builder().nodes(nodes).connect_lazy().await.unwrap();
        for node in [1, 2] {
            observe::healthy(&client, node).await;
        }
        while fake.bundles() == 0 {
            let won = acquire_together(&client, &format!("job-{index}")).await;
            assert_eq!(won.len(), CALLERS, "{named}");
            join_all(won.into_iter().map(Lease::release)).await;
        }
    })
    .await;
    cluster.cleared().await;
}
