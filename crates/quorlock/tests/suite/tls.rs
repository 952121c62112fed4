//! Locks over TLS: clients talk only to nodes whose certificate they can verify.

use std::process::Command;

use crate::common::long_leases::{self, connect_to_all, hold_once};
use quorlock_testkit::{Authority, RedisCluster, RedisServer};

/// The URLs of the nodes. Set in a copy of this process that trusts the test's own authority.
const NODES: &str = "QUORLOCK_TLS_NODES";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_accept_only_nodes_with_a_verified_certificate() {
    if let Ok(urls) = std::env::var(NODES) {
        let builder = || long_leases::builder().nodes(urls.split(','));
        builder().init_cluster().await.unwrap();
        hold_once(&connect_to_all(builder()).await, "job").await;
        return;
    }
    let Some(authority) = Authority::make() else { return };
    let servers = RedisServer::builder().tls(&authority).start_many(3);
    let urls: Vec<String> = servers.iter().map(|server| format!("rediss://127.0.0.1:{}", server.tls_port())).collect();
    let stranger = long_leases::builder().nodes(&urls).connect_lazy().await.unwrap();
    let error = stranger.lock("job").try_acquire().await.unwrap_err();
    assert!(servers.iter().all(|server| server.keys("*").is_empty()), "spoken to without being verified: {error}");

    trusting(
        &authority,
        concat!(module_path!(), "::clients_accept_only_nodes_with_a_verified_certificate"),
        &urls.join(","),
    );
    assert!(servers.iter().all(|server| server.keys("quorlock~epoch").len() == 1));
    println!("as a stranger: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_accept_only_masters_with_a_verified_certificate() {
    let names = ["a", "b", "c", "d", "e", "f"];
    if let Ok(url) = std::env::var(NODES) {
        let client = connect_to_all(long_leases::builder().nodes([url])).await;
        for name in names {
            hold_once(&client, name).await;
        }
        return;
    }
    let Some(authority) = Authority::make() else { return };
    let cluster = RedisCluster::start_with_tls(3, &authority);
    let stranger = long_leases::builder().nodes([cluster.tls_url()]).connect_lazy().await.unwrap();
    let error = stranger.lock("job").try_acquire().await.unwrap_err();
    assert!(cluster.servers().all(|server| server.keys("*").is_empty()), "spoken to without being verified: {error}");

    trusting(
        &authority,
        concat!(module_path!(), "::clients_accept_only_masters_with_a_verified_certificate"),
        &cluster.tls_url(),
    );
    for name in names {
        let master = cluster.master_of(&format!("quorlock:{name}"));
        let fences = master.keys("quorlock~fence:*");
        assert!(fences.iter().any(|key| key.contains(&format!("quorlock:{name}"))), "{name}: {fences:?}");
    }
}

/// Runs a test (its path with the crate's name) in a child process that trusts the authority, because trust is a
/// setting of the whole process.
fn trusting(authority: &Authority, test: &str, nodes: &str) {
    let copy = Command::new(std::env::current_exe().expect("the path of the test binary is known"))
        .args(&crate::common::only(test)[..2])
        .env("SSL_CERT_FILE", authority.path())
        .env(NODES, nodes)
        .output()
        .expect("the test binary can be started");
    let said = String::from_utf8_lossy(&copy.stdout);
    assert!(copy.status.success(), "{said}{}", String::from_utf8_lossy(&copy.stderr));
    assert!(said.contains("1 passed"), "{said}");
}
