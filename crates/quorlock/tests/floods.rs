//! A client reads only a limited amount from a node that never stops sending. This test has its own process, because it
//! measures the memory of the process.

#[path = "suite/common/mod.rs"]
mod common;
#[path = "suite/hostile/fake.rs"]
mod fake;
#[path = "suite/hostile/resp.rs"]
mod resp;

use common::long_timeouts::CLOSE_TIMEOUT;
use common::{builder, observe};
use fake::{Behavior, FakeNode, Stage};
use quorlock_testkit::eventually_async;
use resp::{bulk, push};

/// The maximum number of bytes of one reply that leave the fake node: 32 MiB, the client's limit for one value, and
/// 16 MiB in buffers of the kernel.
const READ_BYTES_MAX: u64 = (32 + 16) << 20;
/// The maximum growth of the process's memory: the bytes of a reply, the parsed value, and the spare capacity of its
/// lists.
const MEMORY_GROWTH_MAX: u64 = 400 << 20;
/// The minimum number of bytes of pushes (messages that answer no request) that the client must discard.
const PUSHED_BYTES_MIN: u64 = 2 << 20;

/// The peak memory of this process, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the file has the peak memory");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("the peak memory is a number") << 10
}

/// Replies that never end. Each has a name, the first bytes, and the bytes that follow again and again.
fn endless_replies() -> [(&'static str, Vec<u8>, Vec<u8>); 6] {
    let chunk = |piece: &[u8]| piece.repeat(64 * 1024 / piece.len());
    let text = bulk(&"0123456789".repeat(10));
    [
        ("a line", b"+".to_vec(), chunk(b"a")),
        ("an error", b"-ERR ".to_vec(), chunk(b"a")),
        ("a list", b"*500000\r\n".to_vec(), chunk(&text)),
        ("lists in lists", Vec::new(), chunk(b"*2\r\n")),
        ("a list of nulls", b"*500000\r\n".to_vec(), chunk(b"_\r\n")),
        ("a list of long texts", b"*9\r\n".to_vec(), bulk(&"a".repeat(30_000_000)).into_iter().collect()),
    ]
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_reply_ends_the_connection() {
    let initial_peak = peak_memory();
    for stage in [Stage::Greeting, Stage::NodeCommand, Stage::Vote] {
        for (name, first_bytes, repeated_bytes) in endless_replies() {
            let fake = FakeNode::start(None, stage, Behavior::Flood(first_bytes, repeated_bytes)).await;
            let client = builder().nodes([fake.url()]).connect_lazy().await.expect("the settings are valid");
            assert!(client.lock("job").try_acquire().await.ok().flatten().is_none(), "{name}");
            eventually_async("the client to close the connection", async || fake.ended_flood_count() > 0).await;
            let read_bytes = fake.longest_flood_bytes();
            println!(
                "{name}, from the {stage:?} on: the client read {} KiB; the peak memory is {} MiB",
                read_bytes >> 10,
                peak_memory() >> 20
            );
            assert!(read_bytes < READ_BYTES_MAX, "{name}, from the {stage:?} on: the client read {read_bytes} bytes");
            // The client must free the memory of this flood before the next flood, so that the peak is that of one
            // flood.
            let _ = client.close(CLOSE_TIMEOUT).await;
        }
    }
    // The client discards pushes until the reply is overdue, and then closes the connection.
    let pushes = push(&[bulk("message"), bulk("quorlock~broken"), bulk("quorlock:nobody's")]).repeat(1_000);
    let fake = FakeNode::start(None, Stage::Vote, Behavior::Flood(Vec::new(), pushes)).await;
    let client = builder().nodes([fake.url()]).connect_lazy().await.expect("the settings are valid");
    observe::wait_until_node_votes(&client, 0).await;
    eventually_async("the client to discard many pushes and to close the connection", async || {
        drop(client.lock("job").try_acquire().await);
        fake.flooded_bytes() > PUSHED_BYTES_MIN && fake.ended_flood_count() > 0
    })
    .await;
    let growth = peak_memory() - initial_peak;
    println!("the peak memory is {} MiB, {} MiB more than before", peak_memory() >> 20, growth >> 20);
    assert!(growth < MEMORY_GROWTH_MAX, "the peak memory grew by {growth} bytes");
}
