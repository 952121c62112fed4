//! Locks over TLS: a client sends requests only to nodes whose certificate it can verify.

use std::process::Command;

use crate::common::long_timeouts::{self, connect_to_all, hold_once};
use quorlock_testkit::{Authority, RedisCluster, RedisServer};

/// The environment variable with the URLs of the nodes. It is set only in the child process, which trusts the
/// certificate authority of the test.
const NODES_VARIABLE: &str = "QUORLOCK_TLS_NODES";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_use_only_nodes_with_a_verified_certificate() {
    if let Ok(urls) = std::env::var(NODES_VARIABLE) {
        let builder = || long_timeouts::builder().nodes(urls.split(','));
        builder().init_cluster().await.unwrap();
        hold_once(&connect_to_all(builder()).await, "job").await;
        return;
    }
    let Some(authority) = Authority::make() else { return };
    let servers = RedisServer::builder().tls(&authority).start_many(3);
    let urls: Vec<String> = servers.iter().map(|server| format!("rediss://127.0.0.1:{}", server.tls_port())).collect();
    let distrustful_client = long_timeouts::builder().nodes(&urls).connect_lazy().await.unwrap();
    let error = distrustful_client.lock("job").try_acquire().await.unwrap_err();
    assert!(
        servers.iter().all(|server| server.keys("*").is_empty()),
        "the client wrote to a node that it could not verify: {error}"
    );

    run_trusting(
        &authority,
        concat!(module_path!(), "::clients_use_only_nodes_with_a_verified_certificate"),
        &urls.join(","),
    );
    assert!(servers.iter().all(|server| server.keys("quorlock~epoch").len() == 1));
    println!("without the authority: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_use_only_cluster_masters_with_a_verified_certificate() {
    let names = ["a", "b", "c", "d", "e", "f"];
    if let Ok(url) = std::env::var(NODES_VARIABLE) {
        let client = connect_to_all(long_timeouts::builder().nodes([url])).await;
        for name in names {
            hold_once(&client, name).await;
        }
        return;
    }
    let Some(authority) = Authority::make() else { return };
    let cluster = RedisCluster::start_with_tls(3, &authority);
    let distrustful_client = long_timeouts::builder().nodes([cluster.tls_url()]).connect_lazy().await.unwrap();
    let error = distrustful_client.lock("job").try_acquire().await.unwrap_err();
    assert!(
        cluster.servers().all(|server| server.keys("*").is_empty()),
        "the client wrote to a node that it could not verify: {error}"
    );

    run_trusting(
        &authority,
        concat!(module_path!(), "::clients_use_only_cluster_masters_with_a_verified_certificate"),
        &cluster.tls_url(),
    );
    for name in names {
        let master = cluster.master_of(&format!("quorlock:{name}"));
        let fences = master.keys("quorlock~fence:*");
        assert!(fences.iter().any(|key| key.contains(&format!("quorlock:{name}"))), "{name}: {fences:?}");
    }
}

/// Runs a test in a child process that trusts the authority, because trust is a setting of the whole process. `test` is
/// the path of the test, which begins with the name of the crate.
fn run_trusting(authority: &Authority, test: &str, nodes: &str) {
    let child = Command::new(std::env::current_exe().expect("the path of the test binary is known"))
        .args(&crate::common::args_to_run(test)[..2])
        .env("SSL_CERT_FILE", authority.path())
        .env(NODES_VARIABLE, nodes)
        .output()
        .expect("the test binary can be started");
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    assert!(output.contains("1 passed"), "{output}");
}
