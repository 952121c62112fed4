//! TLS, with client certificates where they are asked for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// What TLS is made of.
#[derive(Clone)]
pub struct Tls {
    certificates: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// Who signs the certificates of clients.
    authorities: Option<Arc<RootCertStore>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = &mut f.debug_struct("Tls");
        tls.field("certificates", &self.certificates.len()).field("authorities", &self.authorities.is_some());
        tls.finish_non_exhaustive()
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Certificate, key and authorities do not go together.
    #[error("the certificates cannot be used: {0}")]
    Unfit(String),
}

impl Tls {
    /// Reads PEM files: the chain of the service's certificate, its key and, if clients are to show certificates, the
    /// authorities that sign those.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used.
    pub fn read(certificate: &Path, key: &Path, authorities: Option<&Path>) -> Result<Self, TlsError> {
        let file = |path: &Path, why: String| TlsError::File { path: path.into(), why };
        let certificates = chain(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, error.to_string()))?;
        let authorities = match authorities {
            None => None,
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in chain(path)? {
                    roots.add(authority).map_err(|error| file(path, error.to_string()))?;
                }
                Some(Arc::new(roots))
            }
        };
        Ok(Self { certificates, key: Arc::new(key), authorities })
    }

    /// Whether clients may show certificates.
    pub(crate) fn knows_clients(&self) -> bool {
        self.authorities.is_some()
    }

    /// `is_enough` says that a certificate is the only thing that clients are known by: then they need one.
    pub(crate) fn acceptor(&self, is_enough: bool) -> Result<TlsAcceptor, TlsError> {
        let unfit = |error: &dyn fmt::Display| TlsError::Unfit(error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| unfit(&error))?;
        let builder = match &self.authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), provider);
                let verifier = if is_enough { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unfit(&error))?)
            }
        };
        let config = builder.with_single_cert(self.certificates.clone(), self.key.clone_key());
        let mut config = config.map_err(|error| unfit(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file = |why: String| TlsError::File { path: path.into(), why };
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| file(error.to_string()))?.collect();
    let chain = read.map_err(|error| file(error.to_string()))?;
    if chain.is_empty() { Err(file("there is no certificate in it".into())) } else { Ok(chain) }
}
