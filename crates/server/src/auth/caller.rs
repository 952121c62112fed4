//! The caller of a request.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use parking_lot::Mutex;
use tracing::Span;

use super::{Identity, hash_of_token, hex, sha256};
use crate::http::hang_up::WaitMarker;
use crate::limiter::Reservation;
use crate::problem::{Code, Problem};
use crate::service::Service;

/// The other end of a connection.
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The hash of the client certificate, as it is written in the file of clients.
    certificate: Option<String>,
    /// Counts the connection toward the limit of the address at first, and toward the limit of the client once a
    /// request has authenticated.
    reservation: Mutex<Reservation>,
    /// The identity of a caller that sends no known bearer token or certificate on this connection.
    anonymous: Arc<Identity>,
    /// The marker of the connection. While a request on the connection waits for a lock or streams events, the request
    /// holds a weak reference to the marker.
    pub(crate) wait_marker: Arc<WaitMarker>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, certificate: Option<&[u8]>, reservation: Reservation) -> Self {
        Self {
            address,
            certificate: certificate.map(|certificate| format!("cert:{}", hex(&sha256(certificate)))),
            reservation: Mutex::new(reservation),
            anonymous: Identity::anonymous(address),
            wait_marker: Arc::default(),
        }
    }

    /// Returns the peer of the connection on which the request arrived.
    fn of(parts: &Parts) -> Result<&Arc<Self>, Problem> {
        let peer = parts.extensions.get();
        peer.ok_or_else(|| Problem::new(Code::Internal, "the request has no connection"))
    }
}

/// The caller of a request. If the service has a list of allowed clients, the caller is authenticated.
pub(crate) struct Caller {
    pub(crate) service: Arc<Service>,
    pub(crate) identity: Arc<Identity>,
    peer: Arc<Peer>,
}

impl Deref for Caller {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.identity
    }
}

impl Caller {
    /// Marks the caller as waiting until the returned value is dropped. While a caller is marked as waiting, the
    /// service notices when the caller hangs up, and closes the connection.
    pub(crate) fn mark_waiting(&self) -> Weak<WaitMarker> {
        Arc::downgrade(&self.peer.wait_marker)
    }
}

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        let peer = Peer::of(parts)?;
        check_host(parts, service)?;
        let identity = match &service.allowed_clients {
            None => &peer.anonymous,
            Some(clients) => {
                let hash = bearer_token(parts).map(hash_of_token).or_else(|| peer.certificate.clone());
                let Some(known) = hash.and_then(|hash| clients.identities.get(&hash)) else {
                    // Failed authentications count toward the limit of the address, which slows the guessing of tokens.
                    service.limiter.count_request(&peer.anonymous.limit_key)?;
                    return Err(Problem::new(
                        Code::Unauthenticated,
                        "a bearer token or client certificate that the service knows is required",
                    ));
                };
                let mut reservation = peer.reservation.lock();
                if *reservation.limit_key != *known.limit_key {
                    *reservation = service.limiter.connections.reserve(&known.limit_key)?;
                }
                known
            }
        };
        Span::current().record("caller", &identity.name);
        service.limiter.count_request(&identity.limit_key)?;
        Ok(Self { service: Arc::clone(service), identity: Arc::clone(identity), peer: Arc::clone(peer) })
    }
}

/// A request that needs no authentication. The request limit of the caller's address applies.
pub(crate) struct PublicRequest;

impl FromRequestParts<Arc<Service>> for PublicRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        check_host(parts, service)?;
        service.limiter.count_request(&Peer::of(parts)?.anonymous.limit_key)?;
        Ok(Self)
    }
}

/// Prevents DNS rebinding. A service without authentication listens only on a loopback address, but a browser on the
/// same host can reach it. A web page could therefore call the service through a domain name that resolves to
/// 127.0.0.1. So the header `Host` of a request to such a service must be localhost or an IP address.
fn check_host(parts: &Parts, service: &Service) -> Result<(), Problem> {
    let Some(host) = parts.headers.get(header::HOST).filter(|_| service.is_loopback_only) else { return Ok(()) };
    if host.to_str().is_ok_and(is_localhost_or_ip) {
        return Ok(());
    }
    let detail = "this service has no authentication, so the header Host must be localhost or an IP address";
    Err(Problem::new(Code::Forbidden, detail))
}

fn is_localhost_or_ip(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

fn bearer_token(parts: &Parts) -> Option<&str> {
    let (scheme, token) = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_must_be_localhost_or_an_ip_address() {
        for host in
            ["localhost", "LOCALHOST:7677", "a.localhost:1", "127.0.0.1:7677", "10.0.0.1", "[::1]:7677", "[::1]"]
        {
            assert!(is_localhost_or_ip(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7677", "localhost.evil.example", "127.0.0.1.evil.example", "", ":7677"]
        {
            assert!(!is_localhost_or_ip(host), "{host}");
        }
    }
}
