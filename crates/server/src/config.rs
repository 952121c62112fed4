//! What a service is made of, and its limits.

use std::net::SocketAddr;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, NAME_BYTES_MAX};

use crate::auth::Clients;
use crate::http::tls::Tls;
use crate::lease_id::LEASE_ID_BYTES_MAX;

/// What a service is made of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The nodes. Leases are to outlive the process of the service: see
    /// [`outlived_by_leases`](quorlock::ClientBuilder::outlived_by_leases).
    pub client: Client,
    /// Builds the client that reads the nodes for lists, histories, looks and events. Its connections live on the thread
    /// that serves readers, so that no lock waits for a long answer to be decoded. Without it, `client` reads.
    pub reader: Option<ClientBuilder>,
    /// What a caller may ask for at most.
    pub limits: Limits,
    /// Who may call; `None` for anybody who can reach the address.
    pub clients: Option<Clients>,
    /// Speak TLS.
    pub tls: Option<Tls>,
    /// Listen on any address, without authentication.
    pub danger_no_auth: bool,
}

impl Config {
    /// The defaults, over these nodes.
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

    /// Whether it serves this machine alone, without authentication.
    pub(crate) fn is_local(&self) -> bool {
        let by_certificate = self.tls.as_ref().is_some_and(Tls::knows_clients);
        self.clients.is_none() && !by_certificate && !self.danger_no_auth
    }
}

/// What a caller may ask for at most. The ttl is bounded by the cluster's `max_ttl`, names by
/// [`NAME_BYTES_MAX`](quorlock::NAME_BYTES_MAX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long a TLS handshake, or a request's body, may take to arrive.
    pub read: Duration,
    /// How long a client may read nothing of what it is sent before it is disconnected (only on Linux and Android), and how
    /// long a host that no longer answers keeps its connection.
    pub write: Duration,
    /// How long the head of a request may take to arrive, from the answer before it or from the beginning of the connection.
    pub idle: Duration,
    /// All headers of a request together, in bytes.
    pub head_bytes: usize,
    /// How many headers a request may have.
    pub headers: usize,
    /// Connections at a time, from everybody together.
    pub connections: usize,
    /// The same, of each client: of those with a key or a certificate that is known here, by that, and of others by their
    /// address.
    pub connections_per_client: usize,
    /// Requests a second, of each client.
    pub requests_per_second: u32,
    /// Requests that wait for a lock at a time, of each client.
    pub waiters: usize,
    /// Keys of each client that the nodes keep out after their release, at a time.
    pub released_keys: u32,
    /// Distinct names that each client uses in a day: the nodes keep a fence of each.
    pub names: usize,
    /// Streams of events at a time, of each client: each begins with all that there is.
    pub followers: usize,
    /// The longest wait for a lock in one request.
    pub wait: Duration,
    /// Names, or leases, in one request.
    pub batch: usize,
    /// How long requests may take to end once the service is asked to stop.
    pub drain: Duration,
}

/// The longest form of one byte of a name in JSON: `\u0001`.
const JSON_ESCAPE_BYTES: usize = 6;
/// Room for the names of the fields of one lease, and for the characters between them.
const LEASE_FIELDS_BYTES: usize = 64;
/// Room for all other fields of a request.
const OTHER_FIELDS_BYTES: usize = 64 * 1024;
/// How much longer than any request the nodes keep a key out that was released.
const RELEASED_KEY_SLACK: Duration = Duration::from_secs(60);

impl Limits {
    /// The longest body, in bytes. It fits as many leases as one request may have, so a client can renew and release in
    /// one request everything that it has locked in one.
    pub(crate) fn body_bytes(&self) -> usize {
        let lease_bytes = JSON_ESCAPE_BYTES * NAME_BYTES_MAX + LEASE_ID_BYTES_MAX + LEASE_FIELDS_BYTES;
        self.batch.saturating_mul(lease_bytes).saturating_add(OTHER_FIELDS_BYTES)
    }

    /// How long the nodes keep a key out that was released: until no request with it can be under way.
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
