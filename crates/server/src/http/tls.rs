//! TLS, with optional client certificates.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::http::listener::ServeError;

/// The certificates and the key of a service, and the authorities for client certificates.
#[derive(Clone, Debug)]
pub struct Tls {
    certificates: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    /// The authorities that sign client certificates. `None` if clients use no certificates.
    pub(crate) authorities: Option<Arc<RootCertStore>>,
}

impl Tls {
    /// Reads PEM files: the certificate chain of the service, the private key of the service and, if clients use
    /// certificates, the authorities that sign the client certificates.
    ///
    /// # Errors
    /// [`ServeError::File`] if a file cannot be used.
    pub fn read(certificate: &Path, key: &Path, authorities: Option<&Path>) -> Result<Self, ServeError> {
        let certificates = read_chain(certificate)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(key, error))?;
        let authorities = authorities.map(|path| {
            let mut roots = RootCertStore::empty();
            for authority in read_chain(path)? {
                roots.add(authority).map_err(|error| file_error(path, error))?;
            }
            Ok::<_, ServeError>(Arc::new(roots))
        });
        Ok(Self { certificates, key: Arc::new(key), authorities: authorities.transpose()? })
    }

    /// Returns the configuration for rustls. `requires_certificate` says whether every client needs a certificate. This
    /// is ignored if there are no authorities.
    pub(crate) fn server_config(&self, requires_certificate: bool) -> Result<ServerConfig, ServeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(invalid)?;
        let builder = match &self.authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), provider);
                let verifier = if requires_certificate { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(invalid)?)
            }
        };
        let mut config = builder.with_single_cert(self.certificates.clone(), self.key.clone_key()).map_err(invalid)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain: Vec<_> = certificates.map_err(|error| file_error(path, error))?;
    if chain.is_empty() { Err(file_error(path, "the file has no certificate")) } else { Ok(chain) }
}

fn file_error(path: &Path, why: impl Display) -> ServeError {
    ServeError::File { path: path.into(), why: why.to_string() }
}

fn invalid(why: impl Display) -> ServeError {
    ServeError::Tls(why.to_string())
}
