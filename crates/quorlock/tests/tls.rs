//! Locks over TLS: nodes are spoken to if their certificate can be verified, and not otherwise.

mod common;

use std::path::Path;
use std::process::Command;

use common::long::{self, connected, take_a_turn};
use quorlock_testkit::RedisServer;

/// Set in a copy of this process that trusts the test's own authority: where the nodes are.
const NODES: &str = "QUORLOCK_TLS_NODES";

/// Says yes to whatever the commands are meant to make, in this folder.
fn openssl(folder: &Path, arguments: &str) -> bool {
    let run = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let Ok(output) = run else { return false };
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// An authority, and a certificate of it for this host. `false` where there is no openssl.
fn certify(folder: &Path) -> bool {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let extensions = "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    std::fs::write(folder.join("node.ext"), extensions).expect("a temporary folder takes a file");
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"))
        && openssl(folder, &format!("req {key} -keyout node.key -out node.csr -subj /CN=node"))
        && openssl(folder, "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -out node.pem -days 2 -extfile node.ext")
}

/// Lets a server listen for TLS on the port of another that is down, and returns the URL. `None` where it knows no TLS.
fn listen(server: &RedisServer, port: u16, folder: &Path) -> Option<String> {
    if server.command(&["CONFIG", "GET", "tls-port"]).strings().is_empty() {
        return None;
    }
    let path = |name: &str| folder.join(name).to_str().expect("the path of a temporary folder").to_owned();
    let settings = [
        ("tls-cert-file", path("node.pem")),
        ("tls-key-file", path("node.key")),
        ("tls-ca-cert-file", path("ca.pem")),
        ("tls-auth-clients", "no".to_owned()),
        ("tls-port", port.to_string()),
    ];
    let words = settings.iter().flat_map(|(setting, value)| [*setting, value.as_str()]);
    let set: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(words).collect();
    assert_eq!(server.command(&set).as_str(), Some("OK"));
    Some(format!("rediss://127.0.0.1:{port}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_spoken_to_over_tls_if_they_can_be_verified() {
    if let Ok(urls) = std::env::var(NODES) {
        let builder = || long::builder().nodes(urls.split(','));
        builder().connect().await.unwrap().init_cluster().await.unwrap();
        take_a_turn(&connected(builder()).await, "job").await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if !certify(folder.path()) {
        return println!("skipped: openssl is not installed");
    }
    let (servers, ports) = (RedisServer::start_many(3), RedisServer::start_many(3));
    ports.iter().for_each(RedisServer::kill);
    let urls = servers.iter().zip(&ports).map(|(server, spare)| listen(server, spare.port(), folder.path()));
    let Some(urls) = urls.collect::<Option<Vec<String>>>() else {
        return println!("skipped: this server was built without TLS");
    };
    let stranger = long::builder().nodes(&urls).connect().await.unwrap();
    let error = stranger.lock("job").try_acquire().await.unwrap_err();
    assert!(servers.iter().all(|server| server.keys("*").is_empty()), "spoken to without being verified: {error}");

    // The authority is trusted by way of the environment, which is set for a process as a whole.
    let copy = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "nodes_are_spoken_to_over_tls_if_they_can_be_verified"])
        .env("SSL_CERT_FILE", folder.path().join("ca.pem"))
        .env(NODES, urls.join(","))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&copy.stdout);
    assert!(copy.status.success(), "{said}{}", String::from_utf8_lossy(&copy.stderr));
    assert!(said.contains("1 passed"), "{said}");
    assert!(servers.iter().all(|server| server.keys("quorlock~epoch").len() == 1));
    println!("as a stranger: {error}");
}
