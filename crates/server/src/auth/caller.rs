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

use super::{Identity, Proof, sha256};
use crate::http::hang_up::Waiting;
use crate::problem::{Code, Problem};
use crate::rate::Share;
use crate::service::Service;

/// The other end of a connection.
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The hash of the client certificate.
    certificate: Option<[u8; 32]>,
    /// The share that the connection counts for: that of the address, until a known client makes a request.
    seat: Mutex<Share>,
    /// The identity of callers without authentication.
    anybody: Arc<Identity>,
    /// Weakly referenced while a request on the connection waits for a lock, or follows events.
    pub(crate) waiting: Arc<Waiting>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, certificate: Option<&[u8]>, seat: Share) -> Self {
        Self {
            address,
            certificate: certificate.map(sha256),
            seat: Mutex::new(seat),
            anybody: Identity::anybody(address),
            waiting: Arc::default(),
        }
    }

    fn of(parts: &Parts) -> Result<&Arc<Self>, Problem> {
        let peer = parts.extensions.get();
        peer.ok_or_else(|| Problem::new(Code::Internal, "a request without a connection"))
    }
}

/// The caller of a request to the service, authenticated if that has clients.
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
    /// Marks the caller as waiting. While the returned value lives, the connection ends if the caller hangs up.
    pub(crate) fn wait(&self) -> Weak<Waiting> {
        Arc::downgrade(&self.peer.waiting)
    }
}

impl FromRequestParts<Arc<Service>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        let peer = Peer::of(parts)?;
        check_host(parts, service)?;
        let identity = match &service.clients {
            None => &peer.anybody,
            Some(clients) => {
                let token = bearer_token(parts).map(|token| Proof::Bearer(sha256(token.as_bytes())));
                let certificate = peer.certificate.map(Proof::Certificate);
                let Some(known) = token.or(certificate).and_then(|proof| clients.find(proof)) else {
                    // Failed logins count towards the rate limit of the address, to limit guessing.
                    service.rates.request(&peer.anybody.share)?;
                    return Err(Problem::new(Code::Unauthenticated, "a known bearer token is needed"));
                };
                let mut seat = peer.seat.lock();
                if *seat.caller != *known.share {
                    *seat = service.rates.connections.take(&known.share)?;
                }
                known
            }
        };
        Span::current().record("caller", &identity.name);
        service.rates.request(&identity.share)?;
        Ok(Self { service: Arc::clone(service), identity: Arc::clone(identity), peer: Arc::clone(peer) })
    }
}

/// A request that needs no authentication. It counts for the address that it comes from.
pub(crate) struct Anybody;

impl FromRequestParts<Arc<Service>> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Problem> {
        check_host(parts, service)?;
        service.rates.request(&Peer::of(parts)?.anybody.share)?;
        Ok(Self)
    }
}

/// Prevents DNS rebinding where there is no authentication: `Host` must be localhost or an IP address.
fn check_host(parts: &Parts, service: &Service) -> Result<(), Problem> {
    let Some(host) = parts.headers.get(header::HOST).filter(|_| service.is_local) else { return Ok(()) };
    if host.to_str().is_ok_and(is_this_machine) {
        return Ok(());
    }
    let detail = "without authentication, the header host must be localhost or an IP address";
    Err(Problem::new(Code::Forbidden, detail))
}

fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().to_ascii_lowercase();
    let number = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || number.parse::<IpAddr>().is_ok()
}

fn bearer_token(parts: &Parts) -> Option<&str> {
    let (scheme, token) = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_localhost_and_ip_addresses_are_this_machine() {
        for host in
            ["localhost", "LOCALHOST:7677", "a.localhost:1", "127.0.0.1:7677", "10.0.0.1", "[::1]:7677", "[::1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7677", "localhost.evil.example", "127.0.0.1.evil.example", "", ":7677"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
