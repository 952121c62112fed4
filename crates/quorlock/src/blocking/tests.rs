use super::*;

#[test]
fn a_lock_works_without_a_runtime() {
    let client = Client::memory();
    let lease = client.lock("a").ttl(Duration::from_secs(5)).label("first").acquire().unwrap();
    assert!(client.lock("a").try_acquire().unwrap().is_none());
    let held = client.lock("a").acquire_within(Duration::ZERO).unwrap_err();
    assert!(matches!(&held, AcquireError::Held(held) if held.holder.as_ref().unwrap().label == "first"), "{held}");
    lease.extend().unwrap();
    let first = lease.fence().unwrap();
    lease.release().unwrap();
    let second = client.lock("a").run(|lease| lease.fence().unwrap()).unwrap();
    assert!(second > first);
    client.close(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_waiting_thread_gets_the_lock_when_it_is_dropped() {
    let client = Client::memory();
    let lease = client.lock("a").acquire().unwrap();
    let waiter = std::thread::spawn({
        let lock = client.lock("a");
        move || lock.acquire().map(|lease| lease.fence().unwrap())
    });
    let first = lease.fence().unwrap();
    drop(lease);
    assert!(waiter.join().unwrap().unwrap() > first);
}

#[test]
fn a_lease_ends_with_its_client() {
    let nodes = MemoryNodes::new(1);
    let client = Client::build(crate::Client::builder().memory(&nodes)).unwrap();
    let lease = client.lock("a").acquire().unwrap();
    drop(client);
    assert_eq!(lease.lost(), LostError::Closed);
    let other = Client::build(crate::Client::builder().memory(&nodes)).unwrap();
    other.lock("a").acquire().unwrap().release().unwrap();
}

#[test]
fn a_lease_is_renewed_while_its_thread_is_busy() {
    let client = Client::memory();
    let lease = client.lock("a").ttl(Duration::from_secs(2)).acquire().unwrap();
    let mut renewals = 0;
    let mut last = lease.validity();
    while renewals < 2 {
        std::thread::yield_now();
        lease.ensure(Duration::from_millis(1)).expect("it is renewed in time");
        let now = lease.validity();
        renewals += u32::from(now > last);
        last = now;
    }
}
