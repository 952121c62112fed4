//! Renews and releases leases: one lease or several leases in one request.

use std::time::Instant;

use axum::Json;
use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::stream::iter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acquire::LeaseTimes;
use super::lease_request::{KEY, check_secret, owner_of_key};
use crate::auth::{Caller, Scope};
use crate::http::request::Body;
use crate::lease_id::LeaseId;
use crate::problem::{Problem, ProblemDetails};
use crate::service::Service;

/// The error messages for requests in another form.
const RENEW_FORMS: &str = "a renewal must have either name and lease_id, or leases";
const RELEASE_FORMS: &str = "a release must have either name and lease_id, or name and key, or leases";

/// The largest number of leases of one request that are processed at the same time.
const CONCURRENT_MAX: usize = 64;

/// A lease, identified by the name of its lock and by its id.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRef {
    /// The name of the lock.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: String,
    /// The id of the lease, from the answer that granted it.
    lease_id: String,
}

/// The leases to renew: either `name` and `lease_id`, or `leases`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRefs {
    /// The name of the lock.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// The id of the lease, from the answer that granted it.
    lease_id: Option<String>,
    /// Several leases.
    #[schema(min_items = 1, max_items = 1000)]
    leases: Option<Vec<LeaseRef>>,
}

impl LeaseRefs {
    /// Returns the leases, at most `max`, and whether the request has them as a list. `forms` is `RENEW_FORMS` or
    /// `RELEASE_FORMS`.
    fn check(self, max: usize, forms: &str) -> Result<(Vec<LeaseRef>, bool), Problem> {
        match (self.name, self.lease_id, self.leases) {
            (Some(name), Some(lease_id), None) => Ok((vec![LeaseRef { name, lease_id }], false)),
            (None, None, Some(leases)) if (1..=max).contains(&leases.len()) => Ok((leases, true)),
            (None, None, Some(leases)) => {
                let count = leases.len();
                Err(Problem::invalid(format!("the number of leases must be between 1 and {max} (got {count})")))
            }
            _ => Err(Problem::invalid(forms)),
        }
    }
}

/// A lease that was renewed.
#[derive(Serialize, ToSchema)]
pub(super) struct Renewal {
    /// The name of the lock.
    name: String,
    /// The fence of the lease.
    fence: Option<u64>,
    #[serde(flatten)]
    times: LeaseTimes,
}

/// The outcome of the renewal of one of several leases.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Outcome {
    Renewed(Renewal),
    Failed {
        /// The name of the lock.
        name: String,
        /// Why the lease was not renewed.
        #[schema(value_type = ProblemDetails)]
        problem: Problem,
    },
}

/// One lease that was renewed, or the outcome for each of several leases.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Renewed {
    One(Renewal),
    Several {
        /// In the order of the request.
        leases: Vec<Outcome>,
    },
}

/// Renew one lease or several leases: each lease lasts for another ttl.
///
/// A lost lease stays lost. If the request has several leases, the answer has an outcome for each lease.
#[utoipa::path(
    post, path = "/v1/leases/renew", tag = "leases", request_body = LeaseRefs,
    responses((status = 200, description = "Renewed, except the leases with a `problem`", body = Renewed))
)]
pub(super) async fn renew(caller: Caller, Body(request): Body<LeaseRefs>) -> Result<Json<Renewed>, Problem> {
    let began = Instant::now();
    let (mut leases, is_list) = request.check(caller.service.limits.batch, RENEW_FORMS)?;
    if let Some(lease) = leases.pop_if(|_| !is_list) {
        return Ok(Json(Renewed::One(renew_one(&caller, &lease, began).await?)));
    }
    caller.service.limiter.count_batch(&caller.limit_key, leases.len())?;
    let renewals = leases.into_iter().map(async |lease| match renew_one(&caller, &lease, began).await {
        Ok(renewal) => Outcome::Renewed(renewal),
        Err(problem) => Outcome::Failed { name: lease.name, problem },
    });
    Ok(Json(Renewed::Several { leases: iter(renewals).buffered(CONCURRENT_MAX).collect().await }))
}

async fn renew_one(caller: &Caller, lease: &LeaseRef, began: Instant) -> Result<Renewal, Problem> {
    let service = &caller.service;
    let LeaseId { lease, .. } = verify(caller, lease)?;
    let validity = service.client.extend(&lease).await?;
    service.metrics.renewals.inc();
    service.limiter.names.record_renewal(&caller.limit_key, lease.name().as_str(), Instant::now());
    let extended_at = Instant::now();
    let times = LeaseTimes::new(began, lease.ttl(), || validity.saturating_sub(extended_at.elapsed()))?;
    Ok(Renewal { name: lease.name().to_string(), fence: lease.fence().map(quorlock::Fence::get), times })
}

/// The leases to release: either `name` and `lease_id`, or `name` and `key`, or `leases`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseRequest {
    /// The name of the lock.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// The id of the lease, from the answer that granted it.
    lease_id: Option<String>,
    /// The idempotency key of the request that acquired the lock. Use it if that request got no answer.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// Several leases.
    #[schema(min_items = 1, max_items = 1000)]
    leases: Option<Vec<LeaseRef>>,
}

/// Release a lease, several leases, or all leases of an idempotency key.
///
/// The call also succeeds for a lease that has already ended. If one of several leases has the wrong name or an invalid
/// id, the service releases no lease, and the problem names that lease. A released key cannot be used again: later
/// requests with the key fail.
#[utoipa::path(
    post, path = "/v1/leases/release", tag = "leases", request_body = ReleaseRequest,
    responses((status = 204, description = "The leases are released"))
)]
pub(super) async fn release(caller: Caller, Body(request): Body<ReleaseRequest>) -> Result<StatusCode, Problem> {
    caller.check_scope(Scope::Lock)?;
    let service = &caller.service;
    let ReleaseRequest { name, lease_id, key, leases } = request;
    if let Some(key) = key {
        let (Some(name), None, None) = (name, lease_id, leases) else {
            return Err(Problem::invalid("a release with key must have name, and neither lease_id nor leases"));
        };
        caller.check_scope_and_name(Scope::Lock, &name)?;
        let key = check_secret(KEY, key).map_err(Problem::invalid)?;
        service.limiter.count_released_keys(&caller.limit_key, 1)?;
        // This call ends every lease that a replica has acquired, or is acquiring, for the key.
        service.client.retire(&name, owner_of_key(&name, &key), service.limits.released_key_refusal()).await?;
        service.metrics.releases.inc();
        return Ok(StatusCode::NO_CONTENT);
    }
    let refs = LeaseRefs { name, lease_id, leases };
    let (leases, is_list) = refs.check(service.limits.batch, RELEASE_FORMS)?;
    service.limiter.count_batch(&caller.limit_key, leases.len())?;
    let with_index = |index: usize, problem: Problem| {
        if is_list { problem.with_prefix(format_args!("leases[{index}]")) } else { problem }
    };
    // Check all leases before releasing the first: if one is invalid, none is released.
    let verify = |(index, lease)| verify(&caller, lease).map_err(|problem| with_index(index, problem));
    let leases: Vec<LeaseId> = leases.iter().enumerate().map(verify).collect::<Result<_, _>>()?;
    let keyed = leases.iter().filter(|lease| lease.is_keyed).count();
    service.limiter.count_released_keys(&caller.limit_key, keyed)?;
    let releases = leases
        .into_iter()
        .enumerate()
        .map(async |(index, lease)| release_one(service, lease).await.map_err(|problem| with_index(index, problem)));
    let outcomes: Vec<Result<(), Problem>> = iter(releases).buffered(CONCURRENT_MAX).collect().await;
    outcomes.into_iter().collect::<Result<(), _>>()?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the verified lease, if the caller may lock its name.
fn verify(caller: &Caller, lease: &LeaseRef) -> Result<LeaseId, Problem> {
    caller.check_scope_and_name(Scope::Lock, &lease.name)?;
    caller.service.signer()?.verify(&lease.name, &lease.lease_id)
}

async fn release_one(service: &Service, LeaseId { lease, is_keyed }: LeaseId) -> Result<(), Problem> {
    if is_keyed {
        service.client.retire_owner_of(&lease, service.limits.released_key_refusal()).await?;
    } else {
        service.client.release(&lease).await?;
    }
    service.metrics.releases.inc();
    Ok(())
}
