//! A certificate authority for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::redis_server::RedisServer;

/// A certificate authority, and a certificate that it issued for servers on 127.0.0.1. A client trusts the authority if
/// its environment variable `SSL_CERT_FILE` is [`path`](Self::path).
#[derive(Debug)]
pub struct Authority {
    folder: TempDir,
}

impl Authority {
    /// Creates an authority. If openssl is missing or the servers do not support TLS, prints the reason and returns
    /// `None`.
    pub fn make() -> Option<Self> {
        if RedisServer::start().command(&["CONFIG", "GET", "tls-port"]).strings().is_empty() {
            println!("skipped: this server was built without TLS");
            return None;
        }
        let folder = TempDir::with_prefix("quorlock-tls-").expect("a temporary folder can be created");
        if !certify(folder.path()) {
            println!("skipped: openssl is not installed");
            return None;
        }
        Some(Self { folder })
    }

    /// The path of the authority's own certificate, a PEM file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The configuration lines of a server that uses the certificate.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            ("tls-cert-file", path("node.pem")),
            ("tls-key-file", path("node.key")),
            ("tls-ca-cert-file", path("ca.pem")),
            ("tls-auth-clients", "no".to_owned()),
            ("tls-replication", "yes".to_owned()),
        ]
    }
}

/// Creates the authority and the certificate. Returns `false` if openssl is not installed.
fn certify(folder: &Path) -> bool {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let extensions = "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    std::fs::write(folder.join("node.ext"), extensions).expect("a file can be written to a temporary folder");
    openssl(folder, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"))
        && openssl(folder, &format!("req {key} -keyout node.key -out node.csr -subj /CN=node"))
        && openssl(folder, "x509 -req -in node.csr -CA ca.pem -CAkey ca.key -out node.pem -days 2 -extfile node.ext")
}

/// Runs openssl. Returns `false` if openssl is not installed.
fn openssl(folder: &Path, arguments: &str) -> bool {
    let run = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let Ok(output) = run else { return false };
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    true
}
