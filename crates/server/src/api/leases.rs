//! Renewing and releasing leases: one, or several in a request.

use std::time::Instant;

use axum::Json;
use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::stream::iter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acquire::Outlook;
use super::order;
use crate::auth::{Caller, Scope};
use crate::config::Limits;
use crate::http::request::Body;
use crate::lease_id::LeaseWord;
use crate::problem::{Account, Problem};
use crate::service::Service;

const RENEW_FORMS: &str = "either a name and a lease_id, or leases";
const RELEASE_FORMS: &str = "either a name and a lease_id, or a name and a key, or leases";

/// The number of leases of one request that are processed at a time.
const AT_ONCE: usize = 64;

/// A lease, by its name and its id.
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
    /// Returns the leases, and whether they were given as a list. `forms` describes the accepted forms, for the error.
    fn check(self, limits: Limits, forms: &str) -> Result<(Vec<LeaseRef>, bool), Problem> {
        match (self.name, self.lease_id, self.leases) {
            (Some(name), Some(lease_id), None) => Ok((vec![LeaseRef { name, lease_id }], false)),
            (None, None, Some(leases)) if (1..=limits.batch).contains(&leases.len()) => Ok((leases, true)),
            (None, None, Some(leases)) => Err(Problem::invalid(format!(
                "the number of leases must be between 1 and {1} (got {0})",
                leases.len(),
                limits.batch
            ))),
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
    outlook: Outlook,
}

/// The outcome for one of several leases.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Outcome {
    Renewed(Renewal),
    Failed {
        /// The name of the lock.
        name: String,
        /// Why the lease was not renewed.
        #[schema(value_type = Account)]
        problem: Problem,
    },
}

/// One lease that was renewed, or the outcome of each of several.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Renewed {
    One(Renewal),
    Several {
        /// In the order of the request.
        leases: Vec<Outcome>,
    },
}

/// Renew a lease, or several: each lease lasts for another ttl.
///
/// A lost lease stays lost. If the request has several leases, the answer has an outcome for each.
#[utoipa::path(
    post, path = "/v1/leases/renew", tag = "leases", request_body = LeaseRefs,
    responses((status = 200, description = "Renewed; of several, each that has no problem", body = Renewed))
)]
pub(super) async fn renew(caller: Caller, Body(request): Body<LeaseRefs>) -> Result<Json<Renewed>, Problem> {
    let began = Instant::now();
    let (mut leases, is_list) = request.check(caller.service.limits, RENEW_FORMS)?;
    if let Some(lease) = leases.pop_if(|_| !is_list) {
        return Ok(Json(Renewed::One(renew_one(&caller, &lease, began).await?)));
    }
    caller.service.rates.batch(&caller.limit_key, leases.len())?;
    let each = leases.into_iter().map(async |lease| match renew_one(&caller, &lease, began).await {
        Ok(renewal) => Outcome::Renewed(renewal),
        Err(problem) => Outcome::Failed { name: lease.name, problem },
    });
    Ok(Json(Renewed::Several { leases: iter(each).buffered(AT_ONCE).collect().await }))
}

async fn renew_one(caller: &Caller, lease: &LeaseRef, began: Instant) -> Result<Renewal, Problem> {
    let service = &caller.service;
    let LeaseWord { lease, .. } = read(caller, lease)?;
    let extended = service.client.extend(&lease).await?;
    service.metrics.renewals.inc();
    service.rates.renewed(&caller.limit_key, lease.name().as_str());
    let at = Instant::now();
    // Subtract the time since the extension.
    let outlook = Outlook::new(began, lease.ttl(), || extended.saturating_sub(at.elapsed()))?;
    Ok(Renewal { name: lease.name().to_string(), fence: lease.fence().map(quorlock::Fence::get), outlook })
}

/// The leases to release: `name` and `lease_id`, or `name` and `key`, or `leases`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseRequest {
    /// The name of the lock.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// The id of the lease, from the answer that granted it.
    lease_id: Option<String>,
    /// The idempotency key of the request that acquired the lock, for a caller that got no answer to it.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// Several leases.
    #[schema(min_items = 1, max_items = 1000)]
    leases: Option<Vec<LeaseRef>>,
}

/// Release a lease, several leases, or all leases of an idempotency key.
///
/// The call also succeeds for a lease that has already ended. If one of several leases has the wrong name or an invalid
/// id, no lease is released, and the problem names that lease. A released key cannot be used again: requests with the
/// key that arrive later fail.
#[utoipa::path(
    post, path = "/v1/leases/release", tag = "leases", request_body = ReleaseRequest,
    responses((status = 204, description = "Released"))
)]
pub(super) async fn release(caller: Caller, Body(request): Body<ReleaseRequest>) -> Result<StatusCode, Problem> {
    caller.may(Scope::Lock)?;
    let service = &caller.service;
    let ReleaseRequest { name, lease_id, key, leases } = request;
    if let Some(key) = key {
        let (Some(name), None, None) = (name, lease_id, leases) else {
            return Err(Problem::invalid("a request with a key must have a name, and no lease_id or leases"));
        };
        caller.may_with(Scope::Lock, &name)?;
        let key = order::check_secret(order::KEY, key)?;
        service.rates.release_keys(&caller.limit_key, 1)?;
        // This ends every lease that any replica has acquired, or is acquiring, for the key.
        service.client.retire(&name, order::of_key(&name, &key), service.limits.released_key_refusal()).await?;
        service.metrics.releases.inc();
        return Ok(StatusCode::NO_CONTENT);
    }
    let refs = LeaseRefs { name, lease_id, leases };
    let (leases, is_list) = refs.check(service.limits, RELEASE_FORMS)?;
    service.rates.batch(&caller.limit_key, leases.len())?;
    let at = |index: usize, problem: Problem| {
        if is_list { problem.at(format_args!("leases[{index}]")) } else { problem }
    };
    // Check all leases before releasing the first: if one is invalid, none is released.
    let read = |(index, lease)| read(&caller, lease).map_err(|problem| at(index, problem));
    let leases: Vec<LeaseWord> = leases.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let keyed = leases.iter().filter(|lease| lease.is_keyed).count();
    service.rates.release_keys(&caller.limit_key, keyed)?;
    let each = leases
        .into_iter()
        .enumerate()
        .map(async |(index, lease)| release_one(service, lease).await.map_err(|problem| at(index, problem)));
    let done: Vec<Result<(), Problem>> = iter(each).buffered(AT_ONCE).collect().await;
    done.into_iter().collect::<Result<(), _>>()?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the lease, if the caller may use its name.
fn read(caller: &Caller, lease: &LeaseRef) -> Result<LeaseWord, Problem> {
    caller.may_with(Scope::Lock, &lease.name)?;
    caller.service.signer()?.read(&lease.name, &lease.lease_id)
}

async fn release_one(service: &Service, LeaseWord { lease, is_keyed }: LeaseWord) -> Result<(), Problem> {
    if is_keyed {
        service.client.retire_owner_of(&lease, service.limits.released_key_refusal()).await?;
    } else {
        service.client.release(&lease).await?;
    }
    service.metrics.releases.inc();
    Ok(())
}
