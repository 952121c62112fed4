//! Acquires leases: without waiting, with a long poll, or with a stream of events about the wait.

mod stream;

pub(super) use stream::KEEP_ALIVE;

use std::sync::Weak;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorlock::{Drift, Lease, Leases};
use serde::Serialize;
use utoipa::ToSchema;

use super::lease_request::{LeaseRequest, ValidRequest};
use crate::auth::{Caller, Scope};
use crate::http::hang_up::WaitMarker;
use crate::http::request::Body;
use crate::lease_id::LeaseId;
use crate::limiter::Reservation;
use crate::problem::{Code, Problem};
use crate::service::Service;
use crate::view::millis;

/// The drift allowance for the caller's clock, in addition to the allowance for the service's clock.
const CALLER_DRIFT: Drift = Drift::SLEWING;

/// A granted lease.
#[derive(Serialize, ToSchema)]
pub(super) struct LeaseView {
    /// The name of the lock.
    name: String,
    /// The id of the lease, for renewals and for the release. It is a secret.
    lease_id: String,
    /// The fence (fencing token), which is higher than the fences of all earlier leases of this name. Send it with
    /// every write that the lock protects.
    fence: Option<u64>,
    /// The number of the slot, from 0. Absent unless the mode is `slots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    /// The lifetime of the lease after each renewal.
    ttl_ms: u64,
}

/// How long a lease is valid. By the caller's own clock, the lease ends `server_elapsed_ms` plus `validity_ms` after
/// the moment just before the request was sent.
#[derive(Clone, Copy, Serialize, ToSchema)]
pub(super) struct LeaseTimes {
    /// How long the lease is surely valid after the service wrote the answer.
    validity_ms: u64,
    /// The time from the arrival of the request until the service wrote the answer. If this time is more than half of
    /// the ttl, renew the lease before you use it.
    server_elapsed_ms: u64,
}

/// The granted lease, or the granted leases.
#[derive(Serialize, ToSchema)]
pub(super) struct Granted {
    #[serde(flatten)]
    leases: GrantedLeases,
    #[serde(flatten)]
    times: LeaseTimes,
    /// The number of nodes that are known to have granted the lease, which is at least a majority.
    nodes_ok: usize,
    /// The number of nodes.
    nodes_total: usize,
}

/// One lease, or one lease for each name of `names`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum GrantedLeases {
    One(LeaseView),
    Several { leases: Vec<LeaseView> },
}

impl LeaseTimes {
    /// Computes how long a lease is valid for the caller of a request that arrived at `began`. Measures the elapsed
    /// time first and the validity second, so any time between the two measurements only shortens the lease for the
    /// caller.
    pub(super) fn new(began: Instant, ttl: Duration, validity: impl FnOnce() -> Duration) -> Result<Self, Problem> {
        let elapsed = began.elapsed();
        let validity = validity();
        // The margin covers the drift of the caller's clock from the request to the end of the lease. Of the elapsed
        // time, half of the ttl is enough: a caller whose request took longer must renew the lease before using it.
        let measured_by_caller = validity + elapsed.min(ttl / 2);
        let margin = measured_by_caller.mul_f64(f64::from(CALLER_DRIFT.ppm) / 1e6) + CALLER_DRIFT.fixed;
        let validity_for_caller = validity.saturating_sub(margin);
        if validity_for_caller.is_zero() {
            return Err(Problem::new(Code::TooSlow, "the lease was granted, but too little of its ttl was left"));
        }
        Ok(Self { validity_ms: millis(validity_for_caller), server_elapsed_ms: millis(elapsed) })
    }
}

impl Granted {
    /// Detaches the leases, or releases them if too little of their validity is left.
    fn new(service: &Service, request: &ValidRequest, began: Instant, leases: Leases) -> Result<Self, Problem> {
        let nodes_ok = leases.iter().map(Lease::nodes).min().unwrap_or_default();
        let times = LeaseTimes::new(began, leases.ttl(), || leases.validity())?;
        let signer = service.signer()?;
        let views = leases.detach()?.into_iter().map(|lease| LeaseView {
            name: lease.name().to_string(),
            fence: lease.fence().map(quorlock::Fence::get),
            slot: lease.slot(),
            ttl_ms: millis(lease.ttl()),
            lease_id: signer.sign(&LeaseId { lease, is_keyed: request.is_keyed }),
        });
        let mut views: Vec<_> = views.collect();
        let leases = match request.mode.and_then(|_| views.pop()) {
            Some(lease) => GrantedLeases::One(lease),
            None => GrantedLeases::Several { leases: views },
        };
        Ok(Self { leases, times, nodes_ok, nodes_total: service.nodes_total })
    }
}

/// Acquire a lock, or several.
///
/// With `Accept: text/event-stream` the answer is a stream of events: `queued`, `position` and `holder` while the
/// request waits, then `granted` with the lease, or `failed` with the problem. If the caller hangs up, the request
/// leaves the queue.
#[utoipa::path(
    post, path = "/v1/leases", tag = "leases", request_body = LeaseRequest,
    responses(
        (status = 201, description = "The granted lease, or the granted leases", body = Granted),
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
    caller.check_scope(Scope::Lock)?;
    let request = request.check(&service.client, service.limits, &caller.name).map_err(Problem::invalid)?;
    request.names.iter().try_for_each(|name| caller.check_scope_and_name(Scope::Lock, name))?;
    service.limiter.count_batch(&caller.limit_key, request.names.len())?;
    service.limiter.count_names(&caller.limit_key, &request.names)?;
    let guard = if request.wait.is_zero() {
        None
    } else {
        Some((service.limiter.waiters.reserve(&caller.limit_key)?, caller.mark_waiting()))
    };
    if wants_stream(&headers) {
        return Ok(stream::streamed_answer(service, request, began, guard));
    }
    let leases = request.acquire(service, None).await?;
    drop(guard);
    let granted = Granted::new(service, &request, began, leases)?;
    Ok((StatusCode::CREATED, axum::Json(granted)).into_response())
}

/// Until the guard is dropped, it counts the caller as a waiter, and lets the service close the connection if the
/// caller hangs up. `None` if the request does not wait.
type WaitGuard = Option<(Reservation, Weak<WaitMarker>)>;

fn wants_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let mut types = accepted.flat_map(|accept| accept.split(',')).filter_map(|accept| accept.split(';').next());
    types.any(|content_type| content_type.trim().eq_ignore_ascii_case("text/event-stream"))
}

#[cfg(test)]
mod tests;
