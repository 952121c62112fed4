//! `quorlock nodes`: how they are, and the founding of a cluster.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::exit::{Exit, Failure};

/// Show the nodes, or declare a new cluster.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  quorlock nodes init --yes --nodes redis://a,redis://b,redis://c")]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    action: Option<NodesAction>,
}

#[derive(Debug, Subcommand)]
enum NodesAction {
    /// Declare that no lock can be outstanding: the nodes become one new cluster and may vote at once.
    Init {
        /// Yes, no lock can be outstanding on these nodes.
        #[arg(long)]
        yes: bool,
    },
}

/// Shows the nodes, or declares them a cluster.
pub(crate) async fn nodes(context: &Context, args: &NodesArgs) -> crate::Outcome {
    match &args.action {
        None => {
            let nodes = context.connect().await?.nodes();
            let able = nodes.iter().filter(|(_, trouble)| trouble.is_none()).count();
            for (node, trouble) in &nodes {
                println!("{node}  {}", trouble.as_ref().map_or_else(|| "ready".into(), ToString::to_string));
            }
            Ok(if able > nodes.len() / 2 { Exit::OK } else { Exit::NO_QUORUM })
        }
        Some(NodesAction::Init { yes: false }) => Err(Failure::Usage(
            "nodes init gives up every lock that may be outstanding on these nodes.\n  \
             If there is none, for the cluster is new or all its users have stopped: quorlock nodes init --yes"
                .into(),
        )),
        Some(NodesAction::Init { yes: true }) => {
            let nodes = context.builder()?.init_cluster().await?.nodes().len();
            println!("{nodes} nodes are one new cluster and may vote");
            Ok(Exit::OK)
        }
    }
}
