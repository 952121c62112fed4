//! `quorlock nodes init`: an operator's word that no lock can be outstanding.

use std::io::{self, BufRead, IsTerminal, Write};

use serde::Serialize;

use crate::context::Context;
use crate::exit::{Exit, Failure};

#[derive(Serialize)]
struct Declared {
    nodes: usize,
}

pub(super) async fn init(context: &Context, yes: bool, discards_leases: bool) -> crate::Outcome {
    let warning = "nodes init gives up every lock that may be outstanding on these nodes";
    agreed(yes, warning, "there is none, for the cluster is new or all its users have stopped", "nodes init --yes")?;
    let mut builder = context.operator()?;
    if discards_leases {
        builder = builder.danger_discard_leases();
    }
    let nodes = builder.init_cluster().await?.nodes().len();
    if context.output.json {
        context.output.json(&Declared { nodes })?;
    } else {
        context
            .output
            .line(format!("{nodes} node{} may vote, as one new cluster", if nodes == 1 { "" } else { "s" }))?;
    }
    Ok(Exit::OK)
}

/// Whether the operator means it: by a flag, or by a word that is typed on a terminal.
pub(super) fn agreed(yes: bool, warning: &str, provided: &str, command: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{warning}.\n  If {provided}: quorlock {command}")));
    }
    eprint!("quorlock: {warning}.\n  If {provided}, type yes: ");
    // Whoever does not see the question does not answer it.
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::Internal(format!("cannot read the answer: {error}")))?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::Usage("nothing was changed".into())) }
}
