//! `quorlock serve`: serves locks over HTTP.

mod demo;
mod log;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorlock_server::{Clients, Config, Limits, Server, Tls, hash_bearer_token};
use serde_json::json;

use crate::context::{Context, FLUSH_TIMEOUT};
use crate::duration::parse_duration;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::read_stdin;
use crate::signals::Signals;

/// Serve locks over HTTP, for programs in any language.
#[derive(Args, Debug)]
#[command(before_help = "\
Any number of replicas can serve the same nodes. Without --clients and --tls-client-ca there is no authentication, \
and the service listens on a loopback address only. /openapi.json describes the calls; / is a live page.")]
#[command(after_help = "\
Exit codes:
  0 stopped on request   64 usage   69 no quorum   78 configuration

Examples:
  quorlock serve --demo
  quorlock serve --listen 0.0.0.0:7677 --clients clients.txt")]
pub(crate) struct ServeArgs {
    /// Listen on ADDRESS.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7677", value_parser = parse_listen, help_heading = "Listening")]
    listen: SocketAddr,

    /// Admit only these clients, one per line: NAME sha256:HASH read,lock,admin GLOB,GLOB.
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    clients: Option<PathBuf>,

    /// Read a bearer token from stdin, print its hash for the clients file, and exit.
    #[arg(long, help_heading = "Access")]
    hash_token: bool,

    /// Use TLS with this certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Listening")]
    tls_cert: Option<PathBuf>,

    /// Use this private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Listening")]
    tls_key: Option<PathBuf>,

    /// Accept client certificates of this CA (PEM); without --clients, require one.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Listening")]
    tls_client_ca: Option<PathBuf>,

    /// Allow N requests per second.
    #[arg(long, value_name = "N", help_heading = "Limits per client", default_value_t = Limits::default().requests_per_second, value_parser = clap::value_parser!(u32).range(1..))]
    rate_limit: u32,

    /// Allow N requests that wait for a lock.
    #[arg(long, value_name = "N", help_heading = "Limits per client", default_value_t = Limits::default().waiters)]
    waiters: usize,

    /// Allow N recently released keys, half of them at once.
    #[arg(long, value_name = "N", help_heading = "Limits per client", default_value_t = Limits::default().released_keys, value_parser = clap::value_parser!(u32).range(2..))]
    released_keys: u32,

    /// Allow N different names in 24 hours, per replica.
    #[arg(long, value_name = "N", help_heading = "Limits per client", default_value_t = Limits::default().names)]
    names: usize,

    /// Allow N connections, counted per address until the client is known.
    #[arg(long, value_name = "N", help_heading = "Limits per client", default_value_t = Limits::default().connections_per_client)]
    connections: usize,

    /// Let a request wait for a lock at most this long.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration, help_heading = "Waiting")]
    max_wait: Duration,

    /// Admit anyone who can reach the address.
    #[arg(long, conflicts_with = "clients", help_heading = "Access")]
    danger_no_auth: bool,

    /// Serve busy nodes in this process, which fail now and then; not with --nodes.
    #[arg(long, conflicts_with = "clients", help_heading = "Other")]
    demo: bool,

    /// Log to stderr as text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true, help_heading = "Other")]
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
        limits.max_wait = self.max_wait;
        limits
    }
}

/// Serves until a signal arrives.
pub(crate) async fn serve(context: &Context, args: ServeArgs) -> Outcome {
    if args.hash_token {
        let token = read_stdin("a bearer token")?;
        return context.output.line(hash_bearer_token(&token).map_err(Failure::usage)?);
    }
    if args.demo && context.settings.origin("nodes") == "--nodes" {
        return Err(Failure::usage("--demo has nodes of its own: leave out either --demo or --nodes"));
    }
    log::start(args.log, context.output);
    let clients = args.clients.as_deref().map(read_clients).transpose()?;
    let mut signals = Signals::listen()?;
    let client = if args.demo {
        demo::start().await?
    } else {
        // Leases belong to the callers of the service, which may outlive this replica.
        context.connect_for_service(context.builder()?.leases_outlive_process().history(true)).await?
    };
    let mut config = Config::new(args.listen, client.clone());
    config.read_client = if args.demo { None } else { Some(context.builder()?) };
    config.allowed_clients = clients;
    config.danger_no_auth = args.danger_no_auth;
    config.limits = args.limits();
    if let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) {
        let tls = Tls::read(certificate, key, args.tls_client_ca.as_deref());
        config.tls = Some(tls.map_err(Failure::config)?);
    }
    let server = Server::bind(config).await.map_err(Failure::config)?;
    let address = format!("{}://{}", if server.is_tls() { "https" } else { "http" }, server.address());
    context.output.result(&json!({ "address": address }), format_args!("serving on {address}"))?;
    let served = server.serve(async {
        let signal = signals.next_fatal().await;
        tracing::info!(signal = signal.as_raw(), "stopping");
    });
    served.await.map_err(Failure::internal)?;
    // A failure does not matter: votes on nodes that do not answer end with their ttl.
    let _ = client.close(FLUSH_TIMEOUT).await;
    Ok(Exit::OK)
}

/// Returns the first address of a host name.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let hint = "use an address and a port, as in 127.0.0.1:7677, [::1]:7677 or localhost:7677";
    let mut addresses = text.to_socket_addrs().map_err(|error| format!("{error}: {hint}"))?;
    addresses.next().ok_or_else(|| format!("this name has no address: {hint}"))
}

fn read_clients(path: &Path) -> Outcome<Clients> {
    let failure = |why: String| Failure::config(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    Clients::parse(&text).map_err(|error| failure(error.to_string()))
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
        expected.max_wait = Duration::from_secs(6);
        let flags = "--rate-limit=1 --waiters=2 --released-keys=3 --names=4 --connections=5 --max-wait=6s";
        assert_eq!(limits(&flags.split(' ').collect::<Vec<_>>()), expected);
    }
}
