//! `quorlock man`: prints the manual, which has a page for the tool and a page for each command.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::{Exit, Failure, Outcome};

/// Print the manual page of a command.
#[derive(Args, Debug)]
#[command(before_help = "A page has every option of its command with all details; --help has only the common options.")]
#[command(after_help = "Examples:\n  quorlock man run | man -l -\n  quorlock man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command [default: quorlock itself].
    command: Option<String>,

    /// Write every page into this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Moves a command's paragraph from where `--help` shows it (below the usage) to where a manual page shows it.
fn move_paragraph(command: Command) -> Command {
    let paragraph = command.get_before_help().map(ToString::to_string);
    let about = command.get_about().map(ToString::to_string);
    let command = command.mut_subcommands(move_paragraph);
    match (about, paragraph) {
        (Some(about), Some(paragraph)) => command.long_about(format!("{about}.\n\n{paragraph}")),
        _ => command,
    }
}

/// Prints one page, or writes all pages.
pub(crate) fn man(args: &ManArgs) -> Outcome {
    let mut root = crate::args::command().disable_help_subcommand(true);
    root.build();
    let root = move_paragraph(root);
    if let Some(folder) = &args.dir {
        let failed = |error: std::io::Error| Failure::config(format_args!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(root, folder).map_err(failed)?;
        return Ok(Exit::OK);
    }
    let mut page = &root;
    if let Some(name) = &args.command {
        let unknown = || Failure::usage(format_args!("no command {name:?}: quorlock --help lists them"));
        page = root.find_subcommand(name).ok_or_else(unknown)?;
    }
    Man::new(page.clone()).render(&mut std::io::stdout()).map_err(Failure::cannot("write"))?;
    Ok(Exit::OK)
}
