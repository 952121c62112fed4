//! Breaks leases of other clients.

use axum::Json;
use axum::extract::Path;
use quorlock::{Break, Digest, Fence, Target};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{Caller, Scope};
use crate::http::request::{Body, Name};
use crate::problem::Problem;
use crate::view::millis;

/// A request to break a lease. It has either `fence` or `digest`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BreakRequest {
    /// The fence of the lease to break. A lease with another fence is not broken.
    #[schema(minimum = 1)]
    fence: Option<u64>,
    /// The digest of the lease to break. Use it for a plain lock, whose lease has no fence.
    #[schema(min_length = 16, max_length = 16, pattern = "^[0-9a-f]{16}$")]
    digest: Option<String>,
    /// When the lock becomes free.
    #[serde(default)]
    mode: BreakMode,
    /// The reason for the break, which the history shows.
    #[schema(min_length = 1, max_length = 512, example = "its host is on fire")]
    reason: String,
}

/// When a broken lock becomes free.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum BreakMode {
    /// When the lease would have ended without a renewal.
    #[default]
    Drain,
    /// At once. Until the old holder notices the break, there may be two holders.
    Now,
}

/// A lease that was broken.
#[derive(Serialize, ToSchema)]
pub(super) struct BrokenView {
    /// The name of the lock.
    name: String,
    /// The number of nodes that have broken the lease: at least a majority.
    nodes: usize,
    /// The time until the lock is free.
    drain_ms: u64,
}

/// Break the lease of another client.
///
/// Write a slash in the name as `%2F`.
#[utoipa::path(
    post, path = "/v1/locks/{name}/break", tag = "locks", request_body = BreakRequest,
    params(("name" = String, Path, description = "The name of the lock", min_length = 1, max_length = 512)),
    responses((status = 200, description = "The lease is broken", body = BrokenView))
)]
pub(super) async fn break_lock(
    caller: Caller,
    name: Name,
    Body(request): Body<BreakRequest>,
) -> Result<Json<BrokenView>, Problem> {
    let Path(name) = name?;
    caller.check_scope_and_name(Scope::Admin, &name)?;
    let target = match (request.fence, request.digest) {
        (Some(fence), None) => Target::Fence(Fence::new(fence)),
        (None, Some(digest)) => Target::Digest(
            Digest::parse(&digest).ok_or_else(|| Problem::invalid("digest must have 16 hexadecimal digits"))?,
        ),
        _ => return Err(Problem::invalid("a request must have either fence or digest")),
    };
    if request.reason.trim().is_empty() {
        return Err(Problem::invalid("reason must not be empty"));
    }
    let options = Break::new(target, format!("{} (by {})", request.reason, &caller.name));
    let options = if request.mode == BreakMode::Now { options.now() } else { options };
    let broken = caller.service.client.break_lock(&name, options).await?;
    Ok(Json(BrokenView { name, nodes: broken.nodes, drain_ms: millis(broken.drain_time) }))
}
