//! `quorlock`: run a command under a distributed lock.

mod args;
mod command;
mod config;
mod context;
mod duration;
mod exit;
mod inspection;
mod output;
mod process;
mod recipe;
mod signals;
mod table;
mod waiting;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use command::{
    acquire, bench, breaking, completions, demo, doctor, lease, list, man, nodes, run, serve, status, watch,
};
use config::Settings;
use context::Context;
use exit::{Exit, Failure};
use output::Output;

/// What a command comes to.
type Outcome = Result<Exit, Failure>;

/// The service is made of small things that live for a request, often on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = run::hidden_command() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for; anything else is a mistake, and has a code of its own.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            if acquire::seems_for_eval(std::env::args_os().skip(1)) {
                acquire::pass_on(Exit::USAGE);
            }
            return Exit::USAGE.into();
        }
    };
    let is_for_eval = matches!(&cli.command, Command::Acquire(args) if args.is_for_eval());
    let done = start(cli);
    if is_for_eval {
        acquire::pass_on(done.as_ref().map_or_else(Failure::exit, |exit| *exit));
    }
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}

fn start(mut cli: Cli) -> Outcome {
    // What needs neither settings nor nodes works without any.
    match &cli.command {
        Command::Completions(args) => return Ok(completions::completions(args)),
        Command::Man(args) => return man::man(args),
        _ => {}
    }
    let settings = Settings::read(&cli.flags(), cli.place.config.take(), cli.place.profile.take())?;
    let color = settings.text("color").unwrap_or("auto");
    let output = Output::new(cli.print.json, cli.print.quiet, cli.print.verbose, color);
    let context = Context { settings, output };
    let mut runtime = match &cli.command {
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Internal(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(&context, args).await,
            Command::Acquire(args) => acquire::acquire(&context, args).await,
            Command::Extend(args) => lease::extend(&context, &args).await,
            Command::Release(args) => lease::release(&context, &args).await,
            Command::Check(args) => lease::check(&context, &args).await,
            Command::Status(args) => status::status(&context, &args).await,
            Command::History(args) => command::history::history(&context, &args).await,
            Command::List(args) => list::list(&context, &args).await,
            Command::Watch(args) => watch::watch(&context, &args).await,
            Command::Break(args) => breaking::break_lock(&context, args).await,
            Command::Nodes(args) => nodes::nodes(&context, &args).await,
            Command::Serve(args) => serve::serve(&context, args).await,
            Command::Bench(args) => bench::bench(&context, args).await,
            Command::Demo(args) => demo::demo(&context, args).await,
            Command::Doctor(_) => doctor::doctor(&context).await,
            Command::Config(_) => command::config::config(&context),
            Command::Completions(_) | Command::Man(_) => Ok(Exit::OK),
        }
    })
}
