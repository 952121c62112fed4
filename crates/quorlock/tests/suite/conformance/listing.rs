//! Lists the names that have holders or waiters.

use futures_util::future::join_all;
use quorlock::{Client, Filter, LIST_MAX, Listing, NAME_BYTES_MAX};

use crate::conformance::backend::{Backend, assert_free, enqueue, wait_for_holders};

async fn list(client: &Client, glob: &str) -> Listing {
    let listing = client.list(&Filter::new(glob)).await.unwrap();
    assert_eq!(listing.missing, []);
    listing
}

async fn names(client: &Client, glob: &str) -> Vec<String> {
    let listing = list(client, glob).await;
    assert!(!listing.is_truncated);
    listing.names.iter().map(|inspection| inspection.name.to_string()).collect()
}

pub(crate) async fn names_with_holders_or_waiters_are_listed(backend: &Backend) {
    let (our_client, their_client) = backend.rivals().await;
    assert_eq!(names(&their_client, "*").await, [""; 0]);
    let exclusive_lease = our_client.lock("exclusive").acquire().await.unwrap();
    let _plain = our_client.lock("plain").plain().acquire().await.unwrap();
    let _entry = our_client.reentrant("reentrant").acquire().await.unwrap();
    let _read_lease = our_client.rw("shared").read().acquire().await.unwrap();
    let _slot = our_client.semaphore("slot", 2).acquire().await.unwrap();
    our_client.lock("free again").acquire().await.unwrap().release().await.unwrap();
    assert_free(&their_client, "free again").await;
    let waiting_lock = their_client.lock("exclusive");
    let waiter = enqueue(&their_client, "exclusive", 1, async move { waiting_lock.acquire().await }).await;
    for name in ["plain", "reentrant", "shared", "slot"] {
        wait_for_holders(&their_client, name, 1).await;
    }
    let listing = list(&their_client, "*").await;
    let found: Vec<&str> = listing.names.iter().map(|inspection| inspection.name.as_str()).collect();
    assert_eq!(found, ["exclusive", "plain", "reentrant", "shared", "slot"]);
    let first_inspection = &listing.names[0];
    assert_eq!(
        (first_inspection.holder().unwrap().1, first_inspection.waiting()),
        (exclusive_lease.fence().unwrap(), 1)
    );
    assert_eq!(first_inspection.nodes.len(), backend.quorum().0);
    assert!(
        matches!(first_inspection.queue(), [only] if only.since_micros > 0 && !only.shared),
        "{:?}",
        first_inspection.queue()
    );
    waiter.abort();
    let _ = waiter.await;
}

pub(crate) async fn a_filter_selects_names(backend: &Backend) {
    let client = backend.client().await;
    let mut leases = Vec::new();
    for name in ["invoices/1", "invoices/22", "orders/1", "in*"] {
        leases.push(client.lock(name).acquire().await.unwrap());
    }
    for (glob, expected) in [
        ("invoices/*", vec!["invoices/1", "invoices/22"]),
        ("invoices/?", vec!["invoices/1"]),
        ("*/1", vec!["invoices/1", "orders/1"]),
        ("orders/1", vec!["orders/1"]),
        ("in*", vec!["in*", "invoices/1", "invoices/22"]),
        ("order", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(names(&client, glob).await, expected, "{glob:?}");
    }
}

pub(crate) async fn every_name_can_be_listed(backend: &Backend) {
    let client = backend.client().await;
    let longest = "\u{e9}".repeat(NAME_BYTES_MAX / 2);
    let mut unusual_names =
        [" ", "two\nlines", "\0", "{name}", "*", "[a]", "%s", "a\\", "\u{1f512}", "line:a", &longest];
    unusual_names.sort_unstable();
    let mut leases = Vec::new();
    for name in unusual_names {
        leases.push(client.lock(name).acquire().await.unwrap());
    }
    assert_eq!(names(&client, "*").await, unusual_names);
    for name in unusual_names.into_iter().filter(|name| !name.contains(['*', '?'])) {
        assert_eq!(names(&client, name).await, [name]);
    }
}

pub(crate) async fn a_listing_reads_several_pages_and_ends_at_its_limit(backend: &Backend) {
    const NAMES: usize = 1_100;
    let client = backend.client().await;
    let all: Vec<String> = (0..NAMES).map(|number| format!("name {number:04}")).collect();
    let mut leases = Vec::new();
    for chunk in all.chunks(100) {
        let locks: Vec<_> = chunk.iter().map(|name| client.lock(name)).collect();
        leases.extend(join_all(locks.iter().map(quorlock::Lock::acquire)).await.into_iter().map(Result::unwrap));
    }
    let listing = client.list(&Filter::new("*").limit(LIST_MAX)).await.unwrap();
    let found: Vec<&str> = listing.names.iter().map(|inspection| inspection.name.as_str()).collect();
    assert_eq!((found, listing.is_truncated), (all.iter().map(String::as_str).collect(), false));
    let complete_listing = client.list(&Filter::new("*").limit(NAMES)).await.unwrap();
    assert_eq!((complete_listing.names.len(), complete_listing.is_truncated), (NAMES, false));
    let limited_listing = client.list(&Filter::new("name 0*").limit(10)).await.unwrap();
    assert_eq!((limited_listing.names.len(), limited_listing.is_truncated), (10, true));
}

pub(crate) async fn pages_contain_all_matching_names(backend: &Backend) {
    let client = backend.client().await;
    let names: Vec<String> = (0..7).map(|number| format!("in*/{number}")).collect();
    let mut leases = Vec::new();
    for name in names.iter().map(String::as_str).chain(["inner", "out"]) {
        leases.push(client.lock(name).acquire().await.unwrap());
    }
    let (mut found, mut position) = (Vec::new(), String::new());
    loop {
        let page = client.list_page(&Filter::beginning_with("in*/").limit(3), &position).await.unwrap();
        assert!(page.names.len() <= 3);
        found.extend(page.names.iter().map(|inspection| inspection.name.to_string()));
        let Some(next) = page.next else { break };
        position = next;
    }
    found.sort_unstable();
    assert_eq!(found, names);
    let filters = ["in*/3", "*/5", "out"].map(Filter::new);
    let listing = client.list(&Filter::beginning_with("in*/").and_any_of(&filters)).await.unwrap();
    let found: Vec<&str> = listing.names.iter().map(|inspection| inspection.name.as_str()).collect();
    assert_eq!(found, ["in*/3", "in*/5"]);
}
