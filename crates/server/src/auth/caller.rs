//! Who asks, as far as is known.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use tracing::Span;

use super::{Known, Proof, Scope, Scopes, sha256};
use crate::http::read::Conversation;
use crate::problem::{Code, Problem};
use crate::rate::{Rates, Share, share_of};
use crate::service::Service;

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    address: IpAddr,
    /// The hash of the certificate that it has shown.
    certificate: Option<[u8; 32]>,
    /// Whose connection it is: the address's, until a client that is known has asked for something on it.
    seat: Mutex<Share>,
    /// Who asks where anybody may. The same for every request, and made once.
    anybody: Caller,
    conversation: Arc<Conversation>,
}

impl Peer {
    pub(crate) fn new(address: IpAddr, certificate: Option<&[u8]>, seat: Share) -> Self {
        let (certificate, anybody) = (certificate.map(sha256), Caller::anybody(address));
        let (seat, conversation) = (Mutex::new(seat), Arc::default());
        Self { inner: Arc::new(Inner { address, certificate, seat, anybody, conversation }) }
    }

    fn of(parts: &Parts) -> Result<&Self, Problem> {
        let peer = parts.extensions.get::<Self>();
        peer.ok_or_else(|| Problem::new(Code::Internal, "a request without a connection"))
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.inner.address
    }

    /// How far it is with what is talked about.
    pub(crate) fn conversation(&self) -> &Arc<Conversation> {
        &self.inner.conversation
    }

    fn pass_to(&self, caller: &str, rates: &Rates) -> Result<(), Problem> {
        let mut seat = self.inner.seat.lock().unwrap_or_else(PoisonError::into_inner);
        if !seat.is_of(caller) {
            *seat = rates.connection(caller)?;
        }
        Ok(())
    }
}

impl FromRequestParts<Service> for Peer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Service) -> Result<Self, Problem> {
        Self::of(parts).cloned()
    }
}

/// Who asks. Of a service without clients, anybody.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    known: Arc<Known>,
    /// Whose share of everything it takes.
    share: Arc<str>,
}

impl Caller {
    pub(crate) fn anybody(address: IpAddr) -> Self {
        let name = address.to_string().into();
        let names = vec![quorlock::Filter::default()];
        let proof = Proof::Bearer([0; 32]);
        let known = Arc::new(Known { name, proof, scopes: Scopes::all(), names });
        Self { known, share: share_of(address).into() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.known.name
    }

    /// Whose share of everything it takes: a client's own, and of others that of their address.
    pub(crate) fn share(&self) -> &str {
        &self.share
    }

    /// The same, to be counted under.
    pub(crate) fn share_key(&self) -> &Arc<str> {
        &self.share
    }

    /// Makes sure that the caller may do this at all.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.known.scopes.has(scope) {
            return Ok(());
        }
        let detail = format!("{:?} does not have the scope {:?}", self.name(), scope.as_str());
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Makes sure that the caller may do this with a name.
    pub(crate) fn may_with(&self, scope: Scope, name: &str) -> Result<(), Problem> {
        self.may(scope)?;
        if self.sees(name) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("{name:?} is not among the names of {:?}", self.name())))
    }

    /// The names that it may see and lock.
    pub(crate) fn names(&self) -> &[quorlock::Filter] {
        &self.known.names
    }

    /// Whether the name is among the caller's.
    pub(crate) fn sees(&self, name: &str) -> bool {
        self.known.names.iter().any(|names| names.fits(name))
    }
}

impl FromRequestParts<Service> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        let peer = Peer::of(parts)?;
        check_host(parts, service)?;
        let anybody = &peer.inner.anybody;
        let caller = match service.clients() {
            None => anybody.clone(),
            Some(clients) => {
                let token = bearer_token(parts).map(|token| Proof::Bearer(sha256(token.as_bytes())));
                let certificate = peer.inner.certificate.map(Proof::Certificate);
                let known = token.or(certificate).and_then(|proof| clients.find(proof));
                let Some(known) = known else {
                    // Guessing is limited like anything else.
                    service.rates().request(&anybody.share)?;
                    return Err(Problem::new(Code::Unauthenticated, "a known bearer token is needed"));
                };
                peer.pass_to(&known.name, service.rates())?;
                Self { known: Arc::clone(known), share: Arc::clone(&known.name) }
            }
        };
        Span::current().record("caller", caller.name());
        service.rates().request(&caller.share)?;
        Ok(caller)
    }
}

/// A request that anybody may make: counted for the address that it comes from.
pub(crate) struct Anybody;

impl FromRequestParts<Service> for Anybody {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Problem> {
        check_host(parts, service)?;
        service.rates().request(&Peer::of(parts)?.inner.anybody.share)?;
        Ok(Self)
    }
}

/// Where nobody has to say who it is, pages of others must not ask in the name of whoever looks at them: a browser takes any
/// name for this machine that its owner says is. Numbers, and names that are nobody's, it does not.
fn check_host(parts: &Parts, service: &Service) -> Result<(), Problem> {
    let Some(host) = parts.headers.get(header::HOST).filter(|_| service.is_of_this_machine()) else { return Ok(()) };
    if host.to_str().is_ok_and(is_of_this_machine) {
        return Ok(());
    }
    let detail =
        "without authentication this service is asked for by localhost or by a number, and not by another name";
    Err(Problem::new(Code::Forbidden, detail))
}

fn is_of_this_machine(host: &str) -> bool {
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
    fn a_name_of_somebody_else_is_not_this_machines() {
        for host in
            ["localhost", "LOCALHOST:7677", "a.localhost:1", "127.0.0.1:7677", "10.0.0.1", "[::1]:7677", "[::1]"]
        {
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in
            ["evil.example", "evil.example:7677", "localhost.evil.example", "127.0.0.1.evil.example", "", ":7677"]
        {
            assert!(!is_of_this_machine(host), "{host}");
        }
    }
}
