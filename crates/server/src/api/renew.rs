//! Renewing: one lease, or all that a caller has.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use futures_util::StreamExt;
use futures_util::stream::iter;
use serde::Serialize;
use utoipa::ToSchema;

use super::acquire::Outlook;
use super::batch::{AT_ONCE, LeaseRef, LeaseRefs, Named};
use crate::auth::{Caller, Scope};
use crate::http::request::Body;
use crate::lease_id::LeaseWord;
use crate::problem::{Account, Problem};
use crate::service::Service;

const FORMS: &str = "either a name and a lease_id, or leases";

/// A lease that was renewed.
#[derive(Serialize, ToSchema)]
pub(super) struct Renewal {
    /// What is locked.
    name: String,
    /// The lease's fence.
    fence: Option<u64>,
    #[serde(flatten)]
    outlook: Outlook,
}

/// What came of one lease of several.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Outcome {
    Renewed(Renewal),
    Failed(Failed),
}

/// A lease that was not renewed.
#[derive(Serialize, ToSchema)]
pub(super) struct Failed {
    /// What was locked.
    name: String,
    /// Why not.
    #[schema(value_type = Account)]
    problem: Problem,
}

/// What came of several leases.
#[derive(Serialize, ToSchema)]
pub(super) struct Renewals {
    /// In the order in which they were named.
    leases: Vec<Outcome>,
}

/// What was renewed: one lease, or several.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Renewed {
    One(Renewal),
    Several(Renewals),
}

/// Renew a lease, or several: each lasts for another ttl.
///
/// Where a lease is gone it stays gone. Of several, each has its own outcome.
#[utoipa::path(
    post, path = "/v1/leases/renew", tag = "leases", request_body = LeaseRefs,
    responses((status = 200, description = "Renewed; of several, each that has no problem", body = Renewed), Problem)
)]
pub(super) async fn renew(
    State(service): State<Service>,
    caller: Caller,
    Body(request): Body<LeaseRefs>,
) -> Result<Json<Renewed>, Problem> {
    let began = Instant::now();
    match request.check(service.limits(), FORMS)? {
        Named::One(lease) => Ok(Json(Renewed::One(renew_one(&service, &caller, &lease, began).await?))),
        Named::Several(leases) => {
            service.rates().batch(caller.share_key(), leases.len())?;
            let each = leases.into_iter().map(async |lease| match renew_one(&service, &caller, &lease, began).await {
                Ok(renewal) => Outcome::Renewed(renewal),
                Err(problem) => Outcome::Failed(Failed { name: lease.name, problem }),
            });
            Ok(Json(Renewed::Several(Renewals { leases: iter(each).buffered(AT_ONCE).collect().await })))
        }
    }
}

async fn renew_one(service: &Service, caller: &Caller, lease: &LeaseRef, began: Instant) -> Result<Renewal, Problem> {
    caller.may_with(Scope::Lock, &lease.name)?;
    let LeaseWord { lease, .. } = service.signer()?.read(&lease.name, &lease.lease_id)?;
    let extended = service.client().extend(&lease).await?;
    service.metrics().renewals.inc();
    service.rates().renewed(caller.share_key(), lease.name().as_str());
    let at = Instant::now();
    // What has passed since is gone from it.
    let outlook = Outlook::new(began, lease.ttl(), || extended.saturating_sub(at.elapsed()))?;
    Ok(Renewal { name: lease.name().to_string(), fence: lease.fence().map(quorlock::Fence::get), outlook })
}
