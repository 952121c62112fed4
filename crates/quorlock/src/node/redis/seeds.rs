//! Asks several servers the same question, and takes the first good answer. The servers are sentinels, or the *seeds*
//! of a Redis Cluster: those of its servers that the URL lists.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::wire::Connecting;
use crate::node::url::Server;
use crate::node::{Trouble, within};

/// Asks all servers concurrently and returns the first good answer, within the deadline. If the servers were asked one
/// after the other, a silent server could use up the whole deadline.
pub(super) async fn ask_all<T, F: Future<Output = Result<T, Trouble>>>(
    servers: &[Server],
    deadline: Duration,
    question: impl Fn(Connecting, Server) -> F,
) -> Result<T, Trouble> {
    let question = &question;
    let ask = |server: Server| async move {
        let address = server.address.clone();
        let asked = async { question(Connecting::open(&server, deadline).await?, server).await };
        (address, within(deadline, asked).await)
    };
    let mut asked: FuturesUnordered<_> = servers.iter().cloned().map(ask).collect();
    let mut reasons = Vec::new();
    let (mut denied, mut unfit, mut may_recover) = (None, None, false);
    while let Some((address, answer)) = asked.next().await {
        match answer {
            Ok(answer) => return Ok(answer),
            Err(Trouble::Denied(why)) => denied = Some(Trouble::Denied(format!("{address}: {why}"))),
            Err(Trouble::Unfit(why)) => {
                reasons.push(format!("{address}: {why}"));
                unfit = Some(Trouble::Unfit(why));
            }
            Err(trouble) => {
                reasons.push(format!("{address} {}", trouble.as_silence()));
                may_recover = true;
            }
        }
    }
    // A retry cannot help if a server denied the login, or if all servers are unfit.
    let permanent = denied.or(unfit.filter(|_| !may_recover));
    Err(permanent.unwrap_or_else(|| Trouble::Unreachable(reasons.join("; "))))
}
