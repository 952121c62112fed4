//! Locking: at once, by a long poll, or with a stream that tells how the waiting goes.

mod stream;

pub(super) use stream::{KEEP_ALIVE, StreamEvent};

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorlock::{Drift, Lease, Leases};
use serde::Serialize;
use utoipa::ToSchema;

use super::order::{LeaseRequest, Order};
use crate::auth::{Caller, Peer, Scope};
use crate::http::read::Waited;
use crate::http::request::Body;
use crate::lease_id::LeaseWord;
use crate::problem::{Code, Problem};
use crate::rate::Share;
use crate::service::Service;
use crate::view::millis;

/// The allowance for the caller's clock, on top of that for the service's own.
const CALLER_DRIFT: Drift = Drift::SLEWING;

/// A lease.
#[derive(Serialize, ToSchema)]
pub(super) struct LeaseView {
    /// What is locked.
    name: String,
    /// What the lease is renewed and released with. It is a secret.
    lease_id: String,
    /// Higher than that of every earlier lease of this name: for whatever the lock protects.
    fence: Option<u64>,
    /// Which slot it has, from 0, with the mode `slots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    /// How long it lasts from each renewal.
    ttl_ms: u64,
}

/// How long a lease lasts, for a caller's own clock: until the moment before the request was sent, plus
/// `server_elapsed_ms`, plus `validity_ms`.
#[derive(Clone, Copy, Serialize, ToSchema)]
pub(super) struct Outlook {
    /// How long it surely lasts, as of when the answer was written.
    validity_ms: u64,
    /// How long the request had been here by then. If it is more than half of the ttl, renew before use.
    server_elapsed_ms: u64,
}

/// A lease that was granted.
#[derive(Serialize, ToSchema)]
pub(super) struct Grant {
    #[serde(flatten)]
    lease: LeaseView,
    #[serde(flatten)]
    outlook: Outlook,
    #[serde(flatten)]
    nodes: NodesOk,
}

/// Leases of several names that were granted together.
#[derive(Serialize, ToSchema)]
pub(super) struct Grants {
    /// One for each name, in order.
    leases: Vec<LeaseView>,
    #[serde(flatten)]
    outlook: Outlook,
    #[serde(flatten)]
    nodes: NodesOk,
}

/// How many nodes a grant rests on.
#[derive(Clone, Copy, Serialize, ToSchema)]
struct NodesOk {
    /// How many are known to have granted it: a majority at least.
    nodes_ok: usize,
    /// How many there are.
    nodes_total: usize,
}

/// What was granted: one lease, or several.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Granted {
    One(Grant),
    All(Grants),
}

impl Outlook {
    /// Read it in this order: the caller counts from a moment before `began`, so that whatever passes in between is
    /// counted twice rather than not at all.
    pub(super) fn new(began: Instant, ttl: Duration, validity: impl FnOnce() -> Duration) -> Result<Self, Problem> {
        let elapsed = began.elapsed();
        let validity = validity();
        // Whoever waited for longer renews first.
        let counted = validity + elapsed.min(ttl / 2);
        let margin = counted.mul_f64(f64::from(CALLER_DRIFT.ppm) / 1e6) + CALLER_DRIFT.fixed;
        let left = validity.saturating_sub(margin);
        if left.is_zero() {
            return Err(Problem::new(Code::TooSlow, "granted, but too late for the lease to be of use"));
        }
        Ok(Self { validity_ms: millis(left), server_elapsed_ms: millis(elapsed) })
    }
}

impl Granted {
    /// What to say of it. If too little is left of it, it is given back.
    fn new(service: &Service, order: &Order, began: Instant, won: Leases) -> Result<Self, Problem> {
        let nodes_ok = won.iter().map(Lease::nodes).min().unwrap_or_default();
        let nodes = NodesOk { nodes_ok, nodes_total: service.nodes_total() };
        let outlook = Outlook::new(began, won.ttl(), || won.validity())?;
        let signer = service.signer()?;
        let leases = won.detach()?.into_iter().map(|lease| LeaseView {
            name: lease.name().to_string(),
            fence: lease.fence().map(quorlock::Fence::get),
            slot: lease.slot(),
            ttl_ms: millis(lease.ttl()),
            lease_id: signer.reveal(&LeaseWord { lease, is_keyed: order.is_keyed }),
        });
        let mut leases: Vec<_> = leases.collect();
        match order.mode.and_then(|_| leases.pop()) {
            Some(lease) => Ok(Self::One(Grant { lease, outlook, nodes })),
            None => Ok(Self::All(Grants { leases, outlook, nodes })),
        }
    }
}

/// Lock a name, or several.
///
/// With `Accept: text/event-stream` the answer is a stream: `queued`, `position` and `holder` tell how the waiting goes,
/// `granted` has the lease, and `failed` the problem. Whoever hangs up gives its place back.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", request_body = LeaseRequest,
    responses(
        (status = 201, description = "It is yours", body = Granted),
        (status = 200, description = "How the waiting goes", content_type = "text/event-stream", body = StreamEvent),
        Problem
    )
)]
pub(super) async fn acquire(
    State(service): State<Service>,
    caller: Caller,
    peer: Peer,
    Wants(is_stream): Wants,
    Body(request): Body<LeaseRequest>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    caller.may(Scope::Lock)?;
    let order = request.check(service.client(), service.limits(), caller.name())?;
    order.names.iter().try_for_each(|name| caller.may_with(Scope::Lock, name))?;
    service.rates().batch(caller.share_key(), order.names.len())?;
    service.rates().names(caller.share_key(), &order.names)?;
    let waiting = Waits::new(&service, &caller, &peer, &order)?;
    if is_stream {
        return Ok(stream::stream(service, order, began, waiting).into_response());
    }
    let acquired = service.unless_stopping(order.acquire(service.client(), None)).await?;
    let won = acquired.map_err(|error| order.refused(error))?;
    drop(waiting);
    let granted = Granted::new(&service, &order, began, won)?;
    Ok((StatusCode::CREATED, axum::Json(granted)).into_response())
}

/// Somebody who may have to wait, for as long as it lives.
struct Waits {
    service: Service,
    _counted: Share,
    _waited: Waited,
}

impl Waits {
    /// `None` for one who asks once.
    fn new(service: &Service, caller: &Caller, peer: &Peer, order: &Order) -> Result<Option<Self>, Problem> {
        if order.wait.is_zero() {
            return Ok(None);
        }
        let counted = service.rates().waiter(caller.share())?;
        service.metrics().waiters.inc();
        let waited = peer.conversation().wait();
        Ok(Some(Self { service: service.clone(), _counted: counted, _waited: waited }))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.service.metrics().waiters.dec();
    }
}

/// Whether the answer is to be a stream.
pub(super) struct Wants(bool);

impl FromRequestParts<Service> for Wants {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Service) -> Result<Self, Infallible> {
        let accepted = parts.headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        let mut kinds = accepted.flat_map(|accept| accept.split(',')).map(|kind| kind.split(';').next());
        Ok(Self(kinds.any(|kind| kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream")))))
    }
}

#[cfg(test)]
mod tests;
