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
    /// The client of the nodes. Build it with [`outlived_by_leases`](quorlock::ClientBuilder::outlived_by_leases), because
    /// leases must outlive the process of the service.
    pub client: Client,
    /// Builds the client that reads the nodes for lists, histories, looks and events. Its connections run on the thread
    /// that serves readers, so that decoding a long answer does not delay a lock. Without it, `client` reads.
    pub reader: Option<ClientBuilder>,
    /// The limits for callers.
    pub limits: Limits,
    /// The clients that may call; `None` for anybody who can reach the address.
    pub clients: Option<Clients>,
    /// The certificates for TLS; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// Whether to listen on any address without authentication.
    pub danger_no_auth: bool,
}

impl Config {
    /// Returns the default configuration for this address and client.
    pub fn new(listen: SocketAddr, client: Client) -> Self {
        Self {
            listen,
            client,
            reader: None,
            limits: Limits::default(),
            clients: None,
            tls: None,
            danger_no_auth: false,
        }
    }

    /// Returns whether it serves only this machine, without authentication.
    pub(crate) fn is_local(&self) -> bool {
        let by_certificate = self.tls.as_ref().is_some_and(|tls| tls.authorities.is_some());
        self.clients.is_none() && !by_certificate && !self.danger_no_auth
    }
}

/// The limits for callers. In addition, the cluster's `max_ttl` limits the ttl, and
/// [`NAME_BYTES_MAX`](quorlock::NAME_BYTES_MAX) the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest time for a TLS handshake, or for a request's body to arrive.
    pub read: Duration,
    /// How long a client may read nothing before it is disconnected (only on Linux and Android), and how long an
    /// unresponsive host keeps its connection.
    pub write: Duration,
    /// The longest time for the head of a request to arrive, counted from the previous answer or from the start of the
    /// connection.
    pub idle: Duration,
    /// The size of all headers of a request together, in bytes.
    pub head_bytes: usize,
    /// The number of headers of a request.
    pub headers: usize,
    /// The number of connections at a time, of all clients together.
    pub connections: usize,
    /// The number of connections at a time of each client. A client with a known token or certificate is counted by that,
    /// any other by its address.
    pub connections_per_client: usize,
    /// The number of requests per second of each client.
    pub requests_per_second: u32,
    /// The number of requests of each client that wait for a lock at a time.
    pub waiters: usize,
    /// The number of released keys of each client that the nodes refuse at a time.
    pub released_keys: u32,
    /// The number of distinct names that each client uses in a day: the nodes keep a fence for each.
    pub names: usize,
    /// The number of event streams of each client at a time: each starts with a full snapshot.
    pub followers: usize,
    /// The longest wait for a lock in one request.
    pub wait: Duration,
    /// The number of names, or leases, in one request.
    pub batch: usize,
    /// How long requests may take to end after the service is asked to stop.
    pub drain: Duration,
}

/// The longest form of one byte of a name in JSON: `\u0001`.
const JSON_ESCAPE_BYTES: usize = 6;
/// Room for the field names of one lease, and for the characters between them.
const LEASE_FIELDS_BYTES: usize = 64;
/// Room for all other fields of a request.
const OTHER_FIELDS_BYTES: usize = 64 * 1024;
/// How much longer than the longest request the nodes refuse a released key.
const RELEASED_KEY_SLACK: Duration = Duration::from_secs(60);

impl Limits {
    /// Returns the longest body, in bytes. It fits as many leases as one request may have, so a client can renew and
    /// release in one request everything that it acquired in one.
    pub(crate) fn body_bytes(&self) -> usize {
        let lease_bytes = JSON_ESCAPE_BYTES * NAME_BYTES_MAX + LEASE_ID_BYTES_MAX + LEASE_FIELDS_BYTES;
        self.batch.saturating_mul(lease_bytes).saturating_add(OTHER_FIELDS_BYTES)
    }

    /// Returns how long the nodes refuse a released key: until no request with it can be under way.
    pub(crate) fn released_key(&self) -> Duration {
        self.wait.saturating_add(RELEASED_KEY_SLACK)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read: Duration::from_secs(10),
            write: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            head_bytes: 16 * 1024,
            headers: 64,
            connections: 20_000,
            connections_per_client: 10_000,
            requests_per_second: 50_000,
            waiters: 10_000,
            released_keys: 100_000,
            names: 500_000,
            followers: 64,
            wait: Duration::from_secs(10 * 60),
            batch: 1_000,
            drain: Duration::from_secs(10),
        }
    }
}
