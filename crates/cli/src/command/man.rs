//! `quorlock man`: the manual, one page for the tool and one for each command.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use crate::exit::{Exit, Failure};

/// Print a manual page.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  quorlock man run | man -l -\n  quorlock man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The command whose page to print [default: that of quorlock itself].
    command: Option<String>,

    /// Write every page into this folder instead.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints one page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> crate::Outcome {
    let mut root = crate::args::command();
    root.build();
    if let Some(folder) = &args.dir {
        let failed = |error: std::io::Error| Failure::config(format_args!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        clap_mangen::generate_to(root, folder).map_err(failed)?;
        return Ok(Exit::OK);
    }
    let page = match &args.command {
        None => root,
        Some(name) => match root.find_subcommand(name).filter(|command| !command.is_hide_set()) {
            Some(command) => command.clone(),
            None => return Err(Failure::usage(format_args!("no command {name:?}: quorlock --help lists them"))),
        },
    };
    let mut text = Vec::new();
    Man::new(page)
        .render(&mut text)
        .and_then(|()| std::io::stdout().write_all(&text))
        .map_err(Failure::cannot("write"))?;
    Ok(Exit::OK)
}
