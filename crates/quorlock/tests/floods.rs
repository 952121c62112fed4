//! Nodes that never stop sending: a client reads a limited amount. This test has a process of its own, because it
//! measures memory.

#[path = "suite/common/mod.rs"]
mod common;
#[path = "suite/hostile/fake.rs"]
mod fake;
#[path = "suite/hostile/resp.rs"]
mod resp;

use common::long::DRAINING;
use common::{builder, observe};
use fake::{Deed, Fake, From};
use quorlock_testkit::eventually_async;
use resp::{bulk, push};

/// The most that a client keeps of one value, plus the kernel's buffers and some room.
const TAKEN_MAX: u64 = (32 + 16) << 20;
/// The bytes of a value, the parsed value, and room for growth.
const GROWTH_MAX: u64 = 400 << 20;
/// The number of bytes after which pushes count as endless.
const PUSHED_MIN: u64 = 2 << 20;

/// The peak memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is one on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it tells the peak");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number of kilobytes") << 10
}

/// Data that never ends and is no reply.
fn endless() -> [(&'static str, Vec<u8>, Vec<u8>); 6] {
    let chunk = |piece: &[u8]| piece.repeat(64 * 1024 / piece.len());
    let text = bulk(&"0123456789".repeat(10));
    [
        ("a line", b"+".to_vec(), chunk(b"a")),
        ("an error", b"-ERR ".to_vec(), chunk(b"a")),
        ("a list", b"*500000\r\n".to_vec(), chunk(&text)),
        ("lists in lists", Vec::new(), chunk(b"*2\r\n")),
        ("a list of nothing", b"*500000\r\n".to_vec(), chunk(b"_\r\n")),
        ("a long text, again and again", b"*9\r\n".to_vec(), bulk(&"a".repeat(30_000_000)).into_iter().collect()),
    ]
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_reply_ends_the_connection() {
    let before = peak();
    for from in [From::Greeting, From::NodeCommand, From::Vote] {
        for (name, first, then) in endless() {
            let fake = Fake::start(None, from, Deed::Flood(first, then)).await;
            let client =
                builder().nodes([fake.url()]).connect_lazy().await.expect("nothing is wrong with its settings");
            assert!(client.lock("job").try_acquire().await.ok().flatten().is_none(), "{name}");
            eventually_async("the client to hang up", async || fake.floods_ended() > 0).await;
            let taken = fake.flooded();
            println!(
                "{name}, from the {from:?} on: {} KiB were taken; {} MiB of memory at the peak",
                taken >> 10,
                peak() >> 20
            );
            assert!(taken < TAKEN_MAX, "{name}, from the {from:?} on: {taken} bytes were taken");
            // What the client has read must not accumulate: the peak is that of one flood.
            let _ = client.close(DRAINING).await;
        }
    }
    // Pushes answer no request. They are discarded until the reply is overdue.
    let said = push(&[bulk("message"), bulk("quorlock~broken"), bulk("quorlock:nobody's")]).repeat(1_000);
    let fake = Fake::start(None, From::Vote, Deed::Flood(Vec::new(), said)).await;
    let client = builder().nodes([fake.url()]).connect_lazy().await.expect("nothing is wrong with its settings");
    observe::healthy(&client, 0).await;
    eventually_async("many pushes to be thrown away, and the silence behind them to be noticed", async || {
        drop(client.lock("job").try_acquire().await);
        fake.pushed() > PUSHED_MIN && fake.floods_ended() > 0
    })
    .await;
    let grown = peak() - before;
    println!("{} MiB of memory at the peak, {} MiB more than before", peak() >> 20, grown >> 20);
    assert!(grown < GROWTH_MAX, "{grown} bytes more than before");
}
