//! `quorlock`: run a command under a distributed lock.

mod args;
mod command;
mod config;
mod context;
mod duration;
mod exit;
mod inspection;
mod lock;
mod output;
mod process;
mod signals;
mod table;
mod wait_display;

use std::process::ExitCode;

use args::{Cli, Command};
use command::{acquire, bench, break_lock, demo, doctor, history, lease, list, man, nodes, run, serve, status, watch};
use config::{Flags, Settings};
use context::Context;
use exit::{Exit, Failure, Outcome};
use output::Output;

/// Faster than the default allocator for the service, whose many small objects often move between threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = run::run_hidden_command() {
        return code;
    }
    let (cli, flags) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not errors.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            let mut arguments = std::env::args_os().skip(1);
            if arguments.next().is_some_and(|first| first == "run") && arguments.all(|argument| argument != "--") {
                eprintln!("\n  put -- before the command: quorlock run NAME -- COMMAND");
            }
            if acquire::may_be_for_eval(std::env::args_os().skip(1)) {
                acquire::print_failure_for_eval(Exit::USAGE);
            }
            return Exit::USAGE.into();
        }
    };
    // If a shell evaluates the output, the output must report a failure to that shell.
    let is_for_eval = matches!(&cli.command, Command::Acquire(args) if args.format == acquire::Format::Sh);
    let exit = run_command(cli, &flags).unwrap_or_else(|failure| failure.report());
    if is_for_eval {
        acquire::print_failure_for_eval(exit);
    }
    exit.into()
}

fn run_command(cli: Cli, flags: &Flags) -> Outcome {
    // These commands need neither settings nor nodes.
    match &cli.command {
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut args::command(), "quorlock", &mut std::io::stdout());
            return Ok(Exit::OK);
        }
        Command::Man(args) => return man::man(args),
        _ => {}
    }
    let settings = Settings::read(flags, cli.config, cli.profile)?;
    let color = settings.text("color").unwrap_or("auto");
    let output = Output::new(cli.json, cli.quiet, cli.verbose, color);
    let context = Context { settings, output };
    let mut runtime = match &cli.command {
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build().map_err(Failure::cannot("start"))?;
    runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(&context, args).await,
            Command::Acquire(args) => acquire::acquire(&context, args).await,
            Command::Extend(args) => lease::extend(&context, &args).await,
            Command::Check(args) => lease::check(&context, &args).await,
            Command::Release(args) => lease::release(&context, &args).await,
            Command::Status { name } => status::status(&context, &name).await,
            Command::List(args) => list::list(&context, &args).await,
            Command::Watch(args) => watch::watch(&context, &args).await,
            Command::Break(args) => break_lock::break_lock(&context, args).await,
            Command::History(args) => history::history(&context, &args).await,
            Command::Nodes { action } => nodes::nodes(&context, action).await,
            Command::Doctor => doctor::doctor(&context).await,
            Command::Config => command::config::config(&context),
            Command::Serve(args) => serve::serve(&context, args).await,
            Command::Bench(args) => bench::bench(&context, args).await,
            Command::Demo(args) => demo::demo(&context, args).await,
            Command::Completions { .. } | Command::Man(_) => Ok(Exit::OK),
        }
    })
}
