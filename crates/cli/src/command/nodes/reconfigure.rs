//! `quorlock nodes reconfigure`: other constants for the same cluster.

use std::time::Duration;

use serde::Serialize;

use super::init::agreed;
use crate::context::Context;
use crate::duration::show;
use crate::exit::Exit;

#[derive(Serialize)]
struct Reconfigured {
    nodes: usize,
    quarantine_left_ms: u64,
}

pub(super) async fn reconfigure(context: &Context, yes: bool) -> crate::Outcome {
    let warning = "with other constants, whoever holds a lock on these nodes cannot renew it, and nobody gets one until the \
                   longer max-ttl and a tenth have passed";
    agreed(yes, warning, "that is what you want", "nodes reconfigure --yes")?;
    let client = context.operator()?.reconfigure().await?;
    let nodes = client.nodes();
    let left = nodes.iter().filter_map(|(_, trouble)| trouble.as_ref()?.quarantine_left());
    let left = left.max().unwrap_or(Duration::ZERO);
    if context.output.json {
        let quarantine_left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        context.output.json(&Reconfigured { nodes: nodes.len(), quarantine_left_ms })?;
    } else if left.is_zero() {
        context.output.line("the cluster has new constants, and votes")?;
    } else {
        context.output.line(format!(
            "the cluster has new constants, and votes in {}\n  to wait for that: quorlock nodes wait",
            show(left)
        ))?;
    }
    Ok(Exit::OK)
}
