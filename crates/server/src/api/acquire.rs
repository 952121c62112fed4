//! Acquires leases: at once, by a long poll, or with a stream of events about the wait.

mod stream;

pub(super) use stream::KEEP_ALIVE;

use std::sync::Weak;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorlock::{Drift, Lease, Leases};
use serde::Serialize;
use utoipa::ToSchema;

use super::order::{LeaseRequest, Order};
use crate::auth::{Caller, Scope};
use crate::http::hang_up::WaitMarker;
use crate::http::request::Body;
use crate::lease_id::LeaseWord;
use crate::problem::{Code, Problem};
use crate::rate::Reservation;
use crate::service::Service;
use crate::view::millis;

/// The drift allowance for the caller's clock, in addition to the allowance for the service's clock.
const CALLER_DRIFT: Drift = Drift::SLEWING;

/// A lease.
#[derive(Serialize, ToSchema)]
pub(super) struct LeaseView {
    /// The name of the lock.
    name: String,
    /// The id of the lease, for renewals and for the release. It is a secret.
    lease_id: String,
    /// The fence (fencing token), which is higher than the fences of all earlier leases of this name. Send it with
    /// every write that the lock protects.
    fence: Option<u64>,
    /// The number of the slot, from 0. Only with the mode `slots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    /// The lifetime of the lease after each renewal.
    ttl_ms: u64,
}

/// How long a lease is valid. By the caller's clock, the lease ends `server_elapsed_ms` plus `validity_ms` after the
/// moment before the request was sent.
#[derive(Clone, Copy, Serialize, ToSchema)]
pub(super) struct Outlook {
    /// How long the lease is surely valid, counted from the moment when the service wrote the answer.
    validity_ms: u64,
    /// The time from the arrival of the request to that moment. If it is more than half of the ttl, renew the lease
    /// before you use it.
    server_elapsed_ms: u64,
}

/// The granted lease, or the granted leases.
#[derive(Serialize, ToSchema)]
pub(super) struct Granted {
    #[serde(flatten)]
    leases: GrantedLeases,
    #[serde(flatten)]
    outlook: Outlook,
    /// The number of nodes that are known to have granted the lease: at least a majority.
    nodes_ok: usize,
    /// The number of nodes.
    nodes_total: usize,
}

/// One lease, or one lease for each name of `names`, in the same order.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum GrantedLeases {
    One(LeaseView),
    Several { leases: Vec<LeaseView> },
}

impl Outlook {
    /// Reads the elapsed time before the validity. If time passes in between, both values include it, which errs on the
    /// safe side.
    pub(super) fn new(began: Instant, ttl: Duration, validity: impl FnOnce() -> Duration) -> Result<Self, Problem> {
        let elapsed = began.elapsed();
        let validity = validity();
        // A caller that waited longer must renew the lease before it uses it.
        let counted = validity + elapsed.min(ttl / 2);
        let margin = counted.mul_f64(f64::from(CALLER_DRIFT.ppm) / 1e6) + CALLER_DRIFT.fixed;
        let left = validity.saturating_sub(margin);
        if left.is_zero() {
            return Err(Problem::new(Code::TooSlow, "the lock was granted, but too little of the ttl was left"));
        }
        Ok(Self { validity_ms: millis(left), server_elapsed_ms: millis(elapsed) })
    }
}

impl Granted {
    /// Detaches the leases, or releases them if too little of their validity is left.
    fn new(service: &Service, order: &Order, began: Instant, won: Leases) -> Result<Self, Problem> {
        let nodes_ok = won.iter().map(Lease::nodes).min().unwrap_or_default();
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
        let leases = match order.mode.and_then(|_| leases.pop()) {
            Some(lease) => GrantedLeases::One(lease),
            None => GrantedLeases::Several { leases },
        };
        Ok(Self { leases, outlook, nodes_ok, nodes_total: service.nodes_total })
    }
}

/// Acquire a lock, or several.
///
/// With `Accept: text/event-stream` the answer is a stream of events: `queued`, `position` and `holder` while the
/// request waits, then `granted` with the lease, or `failed` with the problem. If the caller hangs up, it leaves the
/// queue.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", request_body = LeaseRequest,
    responses(
        (status = 201, description = "The lease", body = Granted),
        (status = 200, description = "Events about the wait", content_type = "text/event-stream", body = String)
    )
)]
pub(super) async fn acquire(
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<LeaseRequest>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let service = &caller.service;
    caller.may(Scope::Lock)?;
    let order = request.check(&service.client, service.limits, &caller.name)?;
    order.names.iter().try_for_each(|name| caller.may_with(Scope::Lock, name))?;
    service.rates.batch(&caller.limit_key, order.names.len())?;
    service.rates.names(&caller.limit_key, &order.names)?;
    let guard = if order.wait.is_zero() {
        None
    } else {
        Some((service.rates.waiters.take(&caller.limit_key)?, caller.mark_waiting()))
    };
    if wants_stream(&headers) {
        return Ok(stream::stream(service, order, began, guard));
    }
    let won = order.acquire(service, None).await?;
    drop(guard);
    let granted = Granted::new(service, &order, began, won)?;
    Ok((StatusCode::CREATED, axum::Json(granted)).into_response())
}

/// Counts a waiting caller, and lets the service close the connection if the caller hangs up.
type WaitGuard = (Reservation, Weak<WaitMarker>);

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let mut kinds = accepted.flat_map(|accept| accept.split(',')).filter_map(|kind| kind.split(';').next());
    kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
}

#[cfg(test)]
mod tests;
