//! Releasing: a lease, several, or whatever a key has.

use axum::extract::State;
use axum::http::StatusCode;
use futures_util::StreamExt;
use futures_util::stream::iter;
use serde::Deserialize;
use utoipa::ToSchema;

use super::batch::{AT_ONCE, LeaseRef, LeaseRefs, Named};
use super::order;
use crate::auth::{Caller, Scope};
use crate::http::request::Body;
use crate::lease_id::LeaseWord;
use crate::problem::Problem;
use crate::service::Service;

const FORMS: &str = "either a name and a lease_id, or a name and a key, or leases";

/// What to release: `name` and `lease_id`, or `name` and `key`, or `leases`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseRequest {
    /// What is locked.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// As it was granted.
    lease_id: Option<String>,
    /// The key that it was asked for with: for one who has no answer to go by.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// Several leases.
    #[schema(min_items = 1, max_items = 1000)]
    leases: Option<Vec<LeaseRef>>,
}

/// Release a lease, several, or whatever a key has. What is gone is released just as well.
///
/// If one of several is no lease of its name, none is released, and the problem says which it is.
/// A key is of no more use after that: requests with it that are still under way come to nothing.
#[utoipa::path(
    post, path = "/v1/leases/release", tag = "leases", request_body = ReleaseRequest,
    responses((status = 204, description = "It is not yours any more"), Problem)
)]
pub(super) async fn release(
    State(service): State<Service>,
    caller: Caller,
    Body(request): Body<ReleaseRequest>,
) -> Result<StatusCode, Problem> {
    caller.may(Scope::Lock)?;
    let ReleaseRequest { name, lease_id, key, leases } = request;
    if let Some(key) = key {
        let (Some(name), None, None) = (name, lease_id, leases) else {
            return Err(Problem::invalid("a key goes with a name, and with nothing else"));
        };
        caller.may_with(Scope::Lock, &name)?;
        let key = order::check_secret("a key", key)?;
        service.rates().release_keys(caller.share_key(), 1)?;
        // Whatever any replica has, or is about to get, for the key is over.
        service.client().retire(&name, order::of_key(&name, &key), service.limits().released_key()).await?;
        service.metrics().releases.inc();
        return Ok(StatusCode::NO_CONTENT);
    }
    match LeaseRefs::new(name, lease_id, leases).check(service.limits(), FORMS)? {
        Named::One(lease) => {
            let lease = read(&service, &caller, &lease)?;
            service.rates().release_keys(caller.share_key(), usize::from(lease.is_keyed))?;
            release_one(&service, lease).await?;
        }
        Named::Several(leases) => {
            service.rates().batch(caller.share_key(), leases.len())?;
            // All of them are looked at before the first is released: whoever is refused has lost none.
            let place = |index: usize| format!("leases[{index}]");
            let read = |(index, lease)| read(&service, &caller, lease).map_err(|problem| problem.at(place(index)));
            let leases: Vec<LeaseWord> = leases.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            let keyed = leases.iter().filter(|lease| lease.is_keyed).count();
            service.rates().release_keys(caller.share_key(), keyed)?;
            let each = leases.into_iter().enumerate().map(async |(index, lease)| {
                release_one(&service, lease).await.map_err(|problem| problem.at(place(index)))
            });
            let done: Vec<Result<(), Problem>> = iter(each).buffered(AT_ONCE).collect().await;
            done.into_iter().collect::<Result<(), _>>()?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// What the caller means, if it may.
fn read(service: &Service, caller: &Caller, lease: &LeaseRef) -> Result<LeaseWord, Problem> {
    caller.may_with(Scope::Lock, &lease.name)?;
    service.signer()?.read(&lease.name, &lease.lease_id)
}

async fn release_one(service: &Service, LeaseWord { lease, is_keyed }: LeaseWord) -> Result<(), Problem> {
    if is_keyed {
        service.client().retire_owner_of(&lease, service.limits().released_key()).await?;
    } else {
        service.client().release(&lease).await?;
    }
    service.metrics().releases.inc();
    Ok(())
}
