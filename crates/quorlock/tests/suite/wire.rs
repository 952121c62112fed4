//! A network that loses, delays, strands and cuts messages: no reply is matched to a wrong request, and no granted vote
//! is left behind.

use std::time::Duration;

use crate::common::long::{
    DRAINING, Wired, connected, each, more, noticed, releases, soon, take_a_turn, votes, voting,
};
use quorlock::{AcquireError, Client, Lease, Silence};
use quorlock_testkit::{Proxy, eventually, eventually_async};

const EVERYWHERE: [usize; 5] = [0, 1, 2, 3, 4];
const KEY: &str = "quorlock:job";

/// A node deadline that a test can wait for.
const SHORT: Duration = Duration::from_millis(100);

/// Lets replies through again, on a new connection: a TCP stream has no gaps.
fn let_replies_through(proxy: &Proxy) {
    let before = proxy.connections();
    proxy.refuse(true);
    proxy.cut();
    proxy.drop_replies(false);
    proxy.refuse(false);
    eventually("the client to come back", || proxy.connections() > before);
}

async fn fails_without_a_quorum(client: &Client) {
    let outcome = client.lock("job").try_acquire().await;
    assert!(matches!(outcome, Err(AcquireError::NoQuorum { .. })), "{outcome:?}");
}

/// Strands the last request to this node: the client's connection is closed, and the request is still in flight.
fn strand(proxy: &Proxy) {
    eventually("a request to be under way", || proxy.held_up() > 0);
    proxy.strand();
    proxy.hold(false);
}

/// Releases, lets the stranded request arrive after the release, and checks that it left no vote.
async fn release_before_the_stranded_request_arrives(cluster: &Wired, client: &Client, lease: Lease, node: usize) {
    let server = &cluster.servers[node..=node];
    voting(client).await;
    let before = each(server, releases);
    soon(lease.release()).await.expect("a majority acknowledges");
    more(server, releases, &before, 1).await;
    let before = each(server, votes);
    cluster.proxies[node].deliver_stranded();
    more(server, votes, &before, 1).await;
    assert_eq!(cluster.standing()[node], Vec::<String>::new(), "a ghost");
    cluster.cleared().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_key_when_replies_are_late() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder().node_deadline(SHORT)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(true);
    }
    fails_without_a_quorum(&client).await;
    for proxy in &cluster.proxies[..3] {
        proxy.hold(false);
    }
    voting(&client).await;
    // Slower than the deadline, but not slow enough to replace a connection: each node grants too late.
    for proxy in &cluster.proxies {
        proxy.delay(SHORT * 2);
    }
    for _ in 0..3 {
        // On a very slow machine the deadline may be late as well.
        drop(client.lock("job").try_acquire().await);
    }
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_leaves_no_key_when_replies_are_lost() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder().node_deadline(SHORT)).await;
    for proxy in &cluster.proxies[..3] {
        proxy.drop_replies(true);
    }
    eventually_async("an answer to be lost", async || {
        fails_without_a_quorum(&client).await;
        cluster.proxies[..3].iter().any(|proxy| proxy.dropped_down() > 0)
    })
    .await;
    cluster.cleared().await;
    cluster.proxies[..3].iter().for_each(let_replies_through);
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_reaches_the_node_whose_acquire_reply_was_lost() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder().node_deadline(SHORT)).await;
    let (deaf, proxy) = (4, &cluster.proxies[4]);
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.stands_on(KEY, &EVERYWHERE).await;
    drop(lease);
    cluster.cleared().await;

    // Once the link has given up on the node, the release waits for the next connection.
    let_replies_through(proxy);
    voting(&client).await;
    proxy.drop_replies(true);
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.stands_on(KEY, &EVERYWHERE).await;
    proxy.refuse(true);
    noticed(&client, deaf, |why| matches!(why, Silence::Broken(_) | Silence::Unreachable(_))).await;
    drop(lease);
    cluster.stands_on(KEY, &[deaf]).await;
    let_replies_through(proxy);
    cluster.cleared().await;
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_after_its_release_leaves_no_vote() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder()).await;
    cluster.proxies[4].hold(true);
    let lease = soon(client.lock("job").acquire()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    take_a_turn(&client, "job").await;
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_renewal_after_its_release_leaves_no_vote() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder()).await;
    let lease = client.lock("job").acquire().await.unwrap();
    cluster.stands_on(KEY, &EVERYWHERE).await;
    cluster.proxies[4].hold(true);
    soon(lease.extend()).await.unwrap();
    strand(&cluster.proxies[4]);
    release_before_the_stranded_request_arrives(&cluster, &client, lease, 4).await;
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranded_acquire_of_a_failed_attempt_leaves_no_vote() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder()).await;
    let stranded = &cluster.proxies[..3];
    stranded.iter().for_each(Proxy::strand_next_requests);
    soon(fails_without_a_quorum(&client)).await;
    // Its releases are sent on the next connections.
    client.close(DRAINING).await.expect("the nodes can be reached again");
    let before = each(&cluster.servers[..3], votes);
    stranded.iter().for_each(Proxy::deliver_stranded);
    more(&cluster.servers[..3], votes, &before, 1).await;
    assert_eq!(cluster.standing().concat(), Vec::<String>::new(), "a ghost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_replaced() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder().node_deadline(SHORT)).await;
    // One connection owes a reply; the other one only sends heartbeats.
    let (asked, idle) = (&cluster.proxies[4], connected(cluster.builder().node_deadline(SHORT)).await);
    let before = asked.connections();
    asked.hold(true);
    let lease = client.lock("job").acquire().await.unwrap();
    for client in [&client, &idle] {
        noticed(client, 4, |_| true).await;
    }
    eventually("both to try anew", || asked.connections() >= before + 2);
    cluster.stands_on(KEY, &[0, 1, 2, 3]).await;
    asked.hold(false);
    voting(&client).await;
    voting(&idle).await;
    // The renewal repairs the node that had not replied.
    eventually_async("a renewal in time", async || lease.extend().await.is_ok()).await;
    cluster.stands_on(KEY, &EVERYWHERE).await;
    drop(lease);
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_during_a_batch_leave_nothing_behind() {
    let cluster = Wired::ready(5).await;
    let client = connected(cluster.builder()).await;
    for turn in 1..=10 {
        // Two of five nodes at first, then all of them: after this many requests the reply is lost, although the node
        // has executed the request.
        let cut = if turn % 2 == 1 { &cluster.proxies[3..] } else { &cluster.proxies[..] };
        for proxy in cut {
            proxy.cut_after_requests(1 + turn / 3);
        }
        let turns: Vec<_> = (0..20)
            .map(|number| {
                let lock = client.lock(format!("job {number}"));
                tokio::spawn(async move {
                    let lease = soon(lock.acquire()).await.expect("acquire retries until a majority votes");
                    let fence = lease.fence();
                    // Dropped, so that nothing waits for the acknowledgement.
                    drop(lease);
                    fence
                })
            })
            .collect();
        for turn in turns {
            turn.await.unwrap().expect("it was held");
        }
    }
    cluster.drained(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_released_once_on_every_node() {
    let cluster = Wired::ready(3).await;
    let client = connected(cluster.direct()).await;
    for name in ["released", "dropped"] {
        let before = each(&cluster.servers, releases);
        let lease = client.lock(name).acquire().await.unwrap();
        cluster.stands_on(&format!("quorlock:{name}"), &[0, 1, 2]).await;
        if name == "released" {
            lease.release().await.unwrap();
        } else {
            drop(lease);
        }
        cluster.cleared().await;
        // Requests are executed in order: when those of the next lease have arrived, all requests of this lease have.
        let another = client.lock("another").acquire().await.unwrap();
        cluster.stands_on("quorlock:another", &[0, 1, 2]).await;
        let after = each(&cluster.servers, releases);
        assert_eq!(after, before.iter().map(|count| count + 1).collect::<Vec<_>>(), "{name}");
        another.release().await.unwrap();
        cluster.cleared().await;
        more(&cluster.servers, releases, &after, 1).await;
    }
    cluster.drained(client).await;
}
