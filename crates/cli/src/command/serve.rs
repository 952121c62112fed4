//! `quorlock serve`: serves the locks over HTTP.

mod demo;
mod log;

use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorlock_server::{Clients, Config, Limits, Server, Tls, hash_bearer_token};
use serde::Serialize;

use crate::context::Context;
use crate::duration::parse_duration;
use crate::exit::{Exit, Failure};
use crate::signals::Signals;

/// How long to wait at the end for nodes that do not answer.
const CLOSING: Duration = Duration::from_secs(1);

/// A fixed seed, so that the demonstration is the same every time.
const DEMO_SEED: u64 = 7;

/// Serve the locks over HTTP, for programs in any language.
///
/// Any number of replicas can serve the same nodes. Without --clients there is no authentication, and it listens on a
/// loopback address only. What the calls are: /openapi.json.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 it was asked to stop, and has   64 bad usage   69 no quorum   78 bad configuration

Examples:
  quorlock serve
  quorlock serve --demo
  quorlock serve --listen 0.0.0.0:7677 --clients clients.txt --nodes redis://a,redis://b,redis://c")]
pub(crate) struct ServeArgs {
    /// Where to listen, as 127.0.0.1:7677 or localhost:7677; port 0 is any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7677", value_parser = parse_listen)]
    listen: SocketAddr,

    /// Who may call: a file with a line for each client, `NAME sha256:HASH read,lock,admin GLOB,GLOB`.
    #[arg(long, value_name = "FILE")]
    clients: Option<PathBuf>,

    /// Read a bearer token from stdin, print its hash for the file of clients, and do nothing else.
    #[arg(long)]
    hash_token: bool,

    /// Speak TLS: a file with the certificate and its chain, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Who signs the certificates of clients, as PEM: without --clients, everybody needs one.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,

    /// Requests a second of each client, at most.
    #[arg(long, value_name = "N", default_value_t = Limits::default().requests_per_second, value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: u32,

    /// Requests of each client that wait for a lock at a time, at most.
    #[arg(long, value_name = "N", default_value_t = Limits::default().waiters)]
    waiters: usize,

    /// Keys of each client that the nodes keep out after their release, at most: half of them at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().released_keys, value_parser = clap::value_parser!(u32).range(2..))]
    released_keys: u32,

    /// Different names that each client locks in 24 hours, at most. Each replica counts for itself.
    #[arg(long, value_name = "N", default_value_t = Limits::default().names)]
    names: usize,

    /// Open connections of each client, at most. Without --clients, and before its first request, a client is an address.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections_per_client)]
    connections: usize,

    /// The longest that a request may wait for a lock.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    max_wait: Duration,

    /// Let anybody in who can reach the address.
    #[arg(long, conflicts_with = "clients")]
    danger_no_auth: bool,

    /// Serve something to look at: nodes in this process that fail now and then, and workers that want their locks. Not
    /// with --nodes.
    #[arg(long, conflicts_with = "clients")]
    demo: bool,

    /// How the log on stderr is written: as text or as json.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: log::Format,
}

impl ServeArgs {
    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.requests_per_second = self.rate_limit;
        limits.waiters = self.waiters;
        limits.released_keys = self.released_keys;
        limits.names = self.names;
        limits.connections_per_client = self.connections;
        limits.wait = self.max_wait;
        limits
    }
}

#[derive(Serialize)]
struct Serving {
    address: String,
}

/// Serves until a signal arrives.
pub(crate) async fn serve(context: &Context, args: ServeArgs) -> crate::Outcome {
    if args.hash_token {
        return hash(context);
    }
    if args.demo && context.settings.is_typed("nodes") {
        let why = "--demo has nodes of its own: leave out either --demo or --nodes";
        return Err(Failure::usage(why));
    }
    log::start(args.log, context.output);
    let clients = args.clients.as_deref().map(read_clients).transpose()?;
    let mut signals = Signals::listen()?;
    let demo = if args.demo { Some(demo::Demo::start(DEMO_SEED).await?) } else { None };
    let client = match &demo {
        Some(demo) => demo.client.clone(),
        // Leases belong to callers, which outlive any replica.
        None => context.open_to_stay(context.builder()?.outlived_by_leases().history(true)).await?,
    };
    let mut config = Config::new(args.listen, client.clone());
    if demo.is_none() {
        config.reader = Some(context.builder()?);
    }
    config.clients = clients;
    config.danger_no_auth = args.danger_no_auth;
    config.limits = args.limits();
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let tls = Tls::read(certificate, key, args.tls_client_ca.as_deref());
        config.tls = Some(tls.map_err(Failure::config)?);
    }
    let server = Server::bind(config).await.map_err(Failure::config)?;
    let address = format!("{}://{}", if server.is_tls() { "https" } else { "http" }, server.address());
    if context.output.json {
        context.output.json(&Serving { address })?;
    } else {
        context.output.line(format_args!("serving on {address}"))?;
    }
    let served = server.serve(async {
        let signal = signals.next_fatal().await;
        tracing::info!(signal = signal.as_raw(), "stopping");
    });
    served.await.map_err(Failure::internal)?;
    // Votes on nodes that do not answer end with their ttl.
    let _ = client.close(CLOSING).await;
    Ok(Exit::OK)
}

fn hash(context: &Context) -> crate::Outcome {
    let mut token = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut token);
    read.map_err(|error| Failure::usage(format!("cannot read a bearer token from stdin: {error}")))?;
    let hash = hash_bearer_token(&token).map_err(Failure::usage)?;
    context.output.line(hash)?;
    Ok(Exit::OK)
}

/// Returns the first address of a host name.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let hint = "an address and a port are needed, as 127.0.0.1:7677, [::1]:7677 or localhost:7677";
    let mut found = text.to_socket_addrs().map_err(|error| format!("{error}: {hint}"))?;
    found.next().ok_or_else(|| format!("this name has no address: {hint}"))
}

fn read_clients(path: &Path) -> Result<Clients, Failure> {
    let fail = |why: String| Failure::config(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    Clients::parse(&text).map_err(|error| fail(error.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn limits(flags: &[&str]) -> Limits {
        Command::parse_from([&["serve"], flags].concat()).serve.limits()
    }

    #[test]
    fn each_flag_sets_its_limit() {
        let mut expected = Limits::default();
        assert_eq!(limits(&[]), expected);
        expected.requests_per_second = 1;
        expected.waiters = 2;
        expected.released_keys = 3;
        expected.names = 4;
        expected.connections_per_client = 5;
        expected.wait = Duration::from_secs(6);
        let flags = "--rate-limit=1 --waiters=2 --released-keys=3 --names=4 --connections=5 --max-wait=6s";
        assert_eq!(limits(&flags.split(' ').collect::<Vec<_>>()), expected);
    }
}
