//! Breaks another client's lease.

use axum::Json;
use axum::extract::Path;
use quorlock::{Break, Digest, Fence, Target};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{Caller, Scope};
use crate::http::request::{Body, Name};
use crate::problem::Problem;
use crate::view::millis;

/// Which lease to break, how, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BreakRequest {
    /// The fence that it has: a newer lease is left alone.
    #[schema(minimum = 1)]
    fence: Option<u64>,
    /// The digest of a plain lock, which has no fence.
    #[schema(min_length = 16, max_length = 16, pattern = "^[0-9a-f]{16}$")]
    digest: Option<String>,
    /// When the next one may have the lock.
    #[serde(default)]
    mode: BreakMode,
    /// Why, for those who look at the history.
    #[schema(min_length = 1, max_length = 512, example = "its host is on fire")]
    reason: String,
}

/// When the next one may have a lock that is broken.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum BreakMode {
    /// When the lease would have ended anyway.
    #[default]
    Drain,
    /// At once: until the old holder learns of it, there may be two.
    Now,
}

/// A lease that was broken.
#[derive(Serialize, ToSchema)]
pub(super) struct BrokenView {
    /// What was locked.
    name: String,
    /// On how many nodes it is broken: a majority at least.
    nodes: usize,
    /// How long nobody else gets it.
    drains_ms: u64,
}

/// End somebody else's lease, named by its fence.
///
/// A name with a slash is written with `%2F`.
#[utoipa::path(
    post, path = "/v1/locks/{name}/break", tag = "locks", request_body = BreakRequest,
    params(("name" = String, Path, description = "The name of the lock", min_length = 1, max_length = 512)),
    responses((status = 200, description = "It is broken", body = BrokenView))
)]
pub(super) async fn break_lock(
    caller: Caller,
    name: Name,
    Body(request): Body<BreakRequest>,
) -> Result<Json<BrokenView>, Problem> {
    let Path(name) = name?;
    caller.may_with(Scope::Admin, &name)?;
    let target = match (request.fence, request.digest) {
        (Some(fence), None) => Target::Fence(Fence::new(fence)),
        (None, Some(digest)) => Target::Digest(
            Digest::parse(&digest).ok_or_else(|| Problem::invalid("a digest has 16 hexadecimal digits"))?,
        ),
        _ => return Err(Problem::invalid("either a fence or a digest")),
    };
    if request.reason.trim().is_empty() {
        return Err(Problem::invalid("the reason must say something"));
    }
    let what = Break::new(target, format!("{} (by {})", request.reason, &caller.name));
    let what = if request.mode == BreakMode::Now { what.now() } else { what };
    let broken = caller.service.client.break_lock(&name, what).await?;
    Ok(Json(BrokenView { name, nodes: broken.nodes, drains_ms: millis(broken.drains) }))
}
