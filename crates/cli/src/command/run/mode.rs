//! How a run holds its lock, by its flags and by the run around it that holds the same lock.

use std::path::Path;
use std::time::Duration;

use quorlock::{Client, Mode, Renewals};

use super::nesting::{Around, Kind};
use super::{IfHeld, RunArgs};
use crate::context::Context;
use crate::exit::Failure;
use crate::recipe::Recipe;

/// A run may take as long as it likes.
const RENEWALS: Renewals = Renewals::Watchdog { every: None, lifetime: Duration::MAX };

/// What to ask for.
pub(super) fn recipe<'a>(
    context: &Context,
    args: &'a RunArgs,
    ttl: Duration,
    around: Option<&Around>,
    client: &Client,
) -> Result<Recipe<'a>, Failure> {
    let mut wait = args.wait.patience(args.if_held.map(|if_held| if_held == IfHeld::Wait));
    let owner = around.and_then(Around::owner).unwrap_or_else(|| client.new_owner());
    let mode = match (args.kind(), around.map(|around| around.kind)) {
        // Who holds alone holds no less than a share.
        (Kind::Exclusive, None | Some(Kind::Exclusive)) | (Kind::Shared, Some(Kind::Exclusive)) => {
            Mode::Reentrant { owner }
        }
        (kind, Some(other)) if kind != other => return Err(at_odds(&args.name, other, kind)),
        (_, None) => args.sharing.mode(owner),
        (_, Some(_)) => {
            // It might wait for somebody who waits for the run around it.
            wait = Some(Duration::ZERO);
            args.sharing.mode(owner)
        }
    };
    let label = args.label.as_deref().or(context.settings.text("label"));
    let label = label.map_or_else(|| program(args), ToOwned::to_owned);
    Ok(Recipe { name: &args.name, mode, ttl, label, renewals: RENEWALS, wait })
}

fn program(args: &RunArgs) -> String {
    let program = args.command.first().and_then(|program| Path::new(program).file_name());
    program.unwrap_or_default().to_string_lossy().into_owned()
}

fn at_odds(name: &str, around: Kind, asked: Kind) -> Failure {
    let how = |kind| match kind {
        Kind::Exclusive => "alone",
        Kind::Shared => "with --shared",
        Kind::Slots => "with --slots",
    };
    Failure::usage(format!(
        "{name} is held by the run around this one, {}: asked for {}, this one would wait for itself",
        how(around),
        how(asked)
    ))
}
