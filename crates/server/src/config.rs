//! The configuration of a service, and its limits.

use std::net::SocketAddr;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, NAME_BYTES_MAX};

use crate::auth::Clients;
use crate::http::tls::Tls;
use crate::lease_id::LEASE_ID_BYTES_MAX;

/// The configuration of a service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The quorlock client that acquires, renews and releases locks on the nodes. Build it with
    /// [`leases_outlive_process`](quorlock::ClientBuilder::leases_outlive_process), because the leases of the service's
    /// callers must survive a restart of the service.
    pub client: Client,
    /// Builds a second quorlock client that only reads: it lists locks, reads the history, and feeds the stream of
    /// events. The connections of this second client run on another thread, so that decoding a long reply does not
    /// delay a lock. If this field is `None`, the service reads with `client`.
    pub read_client: Option<ClientBuilder>,
    /// The limits for callers.
    pub limits: Limits,
    /// The HTTP clients that may call the service. If this field is `None`, every host that can reach the service may
    /// call it.
    pub allowed_clients: Option<Clients>,
    /// The certificates for TLS; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// Whether a service without authentication may listen on an address other than loopback.
    pub danger_no_auth: bool,
}

impl Config {
    /// Returns the default configuration for this address and client.
    pub fn new(listen: SocketAddr, client: Client) -> Self {
        Self {
            listen,
            client,
            read_client: None,
            limits: Limits::default(),
            allowed_clients: None,
            tls: None,
            danger_no_auth: false,
        }
    }

    /// Returns whether the service may listen only on a loopback address: it has no authentication, and
    /// `danger_no_auth` does not allow other addresses.
    pub(crate) fn is_loopback_only(&self) -> bool {
        let has_client_certificates = self.tls.as_ref().is_some_and(|tls| tls.authorities.is_some());
        self.allowed_clients.is_none() && !has_client_certificates && !self.danger_no_auth
    }
}

/// The limits for callers. In addition, the cluster's `max_ttl` limits the ttl, and
/// [`NAME_BYTES_MAX`](quorlock::NAME_BYTES_MAX) limits the length of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest time for a TLS handshake, or for the body of a request to arrive.
    pub read_timeout: Duration,
    /// How long the service keeps a connection whose host does not respond. On Linux and Android, also how long the
    /// service keeps a connection whose client does not read.
    pub write_timeout: Duration,
    /// The longest time for the head of a request to arrive, counted from the previous answer or from the start of the
    /// connection.
    pub idle_timeout: Duration,
    /// The largest size of all headers of a request together, in bytes.
    pub head_bytes: usize,
    /// The largest number of headers of a request.
    pub headers: usize,
    /// The largest number of concurrent connections of all clients together.
    pub connections: usize,
    /// The largest number of concurrent connections of each client. The service identifies a client by its token or
    /// certificate. A client without a known token or certificate is identified by its address.
    pub connections_per_client: usize,
    /// The largest number of requests per second of each client.
    pub requests_per_second: u32,
    /// The largest number of requests of each client that wait for a lock at the same time.
    pub waiters: usize,
    /// The largest number of released idempotency keys that the nodes remember for each client. The nodes refuse
    /// requests with these keys.
    pub released_keys: u32,
    /// The largest number of different names that each client may use in 24 hours. The nodes keep a fence for each
    /// name.
    pub names: usize,
    /// The largest number of concurrent event streams of each client. Each stream starts with a full snapshot.
    pub event_streams: usize,
    /// The longest wait for a lock in one request.
    pub max_wait: Duration,
    /// The largest number of names, or leases, in one request.
    pub batch: usize,
    /// How long the service waits for running requests after it is asked to stop.
    pub drain_timeout: Duration,
}

/// The length of the longest form of one byte of a name in JSON, for example `\u0001`.
const JSON_ESCAPE_BYTES: usize = 6;
/// The bytes that one lease in a JSON list needs besides its name and its id: field names, quotes, braces and commas.
const LEASE_FIELDS_BYTES: usize = 64;
/// The bytes that all other fields of a request may need.
const OTHER_FIELDS_BYTES: usize = 64 * 1024;
/// The nodes refuse a released key for the longest wait of a request plus this duration.
const RELEASED_KEY_SLACK: Duration = Duration::from_secs(60);

impl Limits {
    /// Returns the largest size of a body, in bytes. It is sufficient for the largest batch of leases, so a client can
    /// renew or release in one request all leases that it acquired in one request.
    pub(crate) fn body_bytes(&self) -> usize {
        let lease_bytes = JSON_ESCAPE_BYTES * NAME_BYTES_MAX + LEASE_ID_BYTES_MAX + LEASE_FIELDS_BYTES;
        self.batch.saturating_mul(lease_bytes).saturating_add(OTHER_FIELDS_BYTES)
    }

    /// Returns how long the nodes refuse requests with a released key. A request that was sent before the release
    /// cannot arrive later than that.
    pub(crate) fn released_key_refusal(&self) -> Duration {
        self.max_wait.saturating_add(RELEASED_KEY_SLACK)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            head_bytes: 16 * 1024,
            headers: 64,
            connections: 20_000,
            connections_per_client: 10_000,
            requests_per_second: 50_000,
            waiters: 10_000,
            released_keys: 100_000,
            names: 500_000,
            event_streams: 64,
            max_wait: Duration::from_secs(10 * 60),
            batch: 1_000,
            drain_timeout: Duration::from_secs(10),
        }
    }
}
