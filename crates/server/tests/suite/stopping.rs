//! A service that stops does not wait for connections that have sent no request.

use std::time::Duration;

use quorlock::{Client, MemoryNodes};
use quorlock_server::{Config, Server, Tls};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unfinished_tls_handshake_does_not_delay_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
    let key_pair = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(["localhost".into()]).unwrap().self_signed(&key_pair).unwrap();
    std::fs::write(&certificate, signed.pem()).unwrap();
    std::fs::write(&key, key_pair.serialize_pem()).unwrap();

    let client = Client::builder().memory(&MemoryNodes::new(1)).leases_outlive_process().connect().await.unwrap();
    let mut config = Config::new(([127, 0, 0, 1], 0).into(), client);
    config.tls = Some(Tls::read(&certificate, &key, None).unwrap());
    // These timeouts are longer than the test waits.
    (config.limits.read_timeout, config.limits.drain_timeout) =
        (Duration::from_secs(3_600), Duration::from_secs(3_600));
    let server = Server::bind(config).await.unwrap();
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let service = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));
    let _silent_connection = TcpStream::connect(address).await.unwrap();
    // When the service has answered a later connection, it has accepted the first connection.
    let mut later_connection = TcpStream::connect(address).await.unwrap();
    later_connection.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let _ = later_connection.read_to_end(&mut Vec::new()).await;
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), service)
        .await
        .expect("the service did not stop in time")
        .unwrap()
        .unwrap();
}
