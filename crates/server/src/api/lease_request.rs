//! Checks a request for a lease or for several leases, and acquires them.

use std::time::Duration;

use quorlock::{AcquireError, Client, Leases, Lock, Mode, Owner, PERMITS_MAX, Progress};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::sha256;
use crate::config::Limits;
use crate::problem::Problem;
use crate::service::Service;

/// The smallest length of a key or an owner: the length of 128 random bits in base64.
const SECRET_BYTES_MIN: usize = 22;
/// The largest length of a key or an owner.
const SECRET_BYTES_MAX: usize = 256;
/// The two kinds of secret, as messages call them.
pub(super) const KEY: &str = "a key";
const OWNER: &str = "an owner";

/// A request for one lease or several leases. It has either `name` or `names`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    /// The name of the lock: 1 to 512 bytes.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// The names of several exclusive locks. The request acquires all of them or none.
    #[schema(min_items = 1, max_items = 1000)]
    names: Option<Vec<String>>,
    /// An idempotency key of 128 random bits or more, which the caller chooses. If the caller repeats a request with
    /// the same key, on any replica, the caller gets the same lock again, even if the lease of its first request holds.
    /// Not allowed with `names`, `slots` or `owner`.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// The owner of a reentrant lock: a secret of 128 random bits or more. Requests with the same owner may acquire the
    /// lock again while it is held. Not allowed with `names` or `slots`.
    #[schema(min_length = 22, max_length = 256)]
    owner: Option<String>,
    /// The lifetime of the lease after the grant and after each renewal. If absent, the ttl of the service applies,
    /// which is 30 s by default.
    #[schema(minimum = 100, example = 30000)]
    ttl_ms: Option<u64>,
    /// The longest time to wait for the lock. If absent, the request does not wait.
    #[serde(default)]
    #[schema(example = 5000)]
    wait_ms: u64,
    /// The mode in which to hold the lock.
    #[serde(default)]
    mode: HoldMode,
    /// The number of slots, which is the largest number of holders. Required with the mode `slots`, and not allowed
    /// with other modes. All users of a name must pass the same number.
    #[schema(minimum = 1, maximum = 1024)]
    slots: Option<u32>,
    /// The label that describes the holder to other users, truncated to 128 bytes. If absent, the label is the name or
    /// the address of the client.
    label: Option<String>,
}

/// The mode in which a lock is held.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HoldMode {
    /// Exclusive: one holder.
    #[default]
    Exclusive,
    /// Shared (read): any number of shared holders.
    Shared,
    /// A semaphore: as many holders as there are slots.
    Slots,
}

/// A request whose fields are valid.
pub(super) struct ValidRequest {
    /// The names, in the order of the request.
    pub(super) names: Vec<String>,
    /// The mode of a single name. `None` for `names`, whose locks are all exclusive.
    pub(super) mode: Option<Mode>,
    pub(super) ttl: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) label: String,
    /// Whether the request has an idempotency key.
    pub(super) is_keyed: bool,
}

impl LeaseRequest {
    /// Checks the fields of the request. The error says why the request is invalid.
    pub(super) fn check(self, client: &Client, limits: Limits, default_label: &str) -> Result<ValidRequest, String> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > limits.max_wait {
            let (max, wait) = (limits.max_wait.as_millis(), self.wait_ms);
            return Err(format!("wait_ms must be at most {max} (got {wait}): repeat the request to wait longer"));
        }
        if self.names.is_some() && (self.mode != HoldMode::Exclusive || self.slots.is_some()) {
            return Err("the locks of several names are exclusive: leave out mode and slots".into());
        }
        let (secret_kind, secret) = match (self.key, self.owner) {
            (Some(_), Some(_)) => return Err("a request must not have both a key and an owner".into()),
            (Some(key), None) => (KEY, Some(check_secret(KEY, key)?)),
            (None, owner) => (OWNER, owner.map(|owner| check_secret(OWNER, owner)).transpose()?),
        };
        let is_keyed = secret_kind == KEY;
        let (names, mode) = match (self.name, self.names) {
            (Some(name), None) => {
                let owner_from = |text: &str| if is_keyed { owner_of_key(&name, text) } else { owner_of_secret(text) };
                let owner = secret.as_deref().map(owner_from);
                let mode = match (self.mode, self.slots, owner) {
                    (HoldMode::Slots, None, _) | (HoldMode::Exclusive | HoldMode::Shared, Some(_), _) => {
                        return Err("the mode \"slots\" requires the field slots, and no other mode allows it".into());
                    }
                    (HoldMode::Slots, Some(slots), _) if !(1..=PERMITS_MAX).contains(&slots) => {
                        return Err(format!("slots must be between 1 and {PERMITS_MAX} (got {slots})"));
                    }
                    (HoldMode::Slots, Some(_), Some(_)) => {
                        return Err(format!("a request with slots must not have {secret_kind}"));
                    }
                    (HoldMode::Slots, Some(permits), None) => Mode::Slot { permits, slot: 0 },
                    (HoldMode::Shared, None, Some(owner)) => Mode::Shared { owner, reenters: true },
                    (HoldMode::Shared, None, None) => Mode::Shared { owner: client.new_owner(), reenters: false },
                    (HoldMode::Exclusive, None, Some(owner)) => Mode::Reentrant { owner },
                    (HoldMode::Exclusive, None, None) => Mode::EXCLUSIVE,
                };
                (vec![name], Some(mode))
            }
            (None, Some(_)) if secret.is_some() => {
                return Err(format!("a request with several names must not have {secret_kind}"));
            }
            (None, Some(names)) if names.len() > limits.batch => {
                return Err(format!("{} names are too many: at most {}", names.len(), limits.batch));
            }
            (None, Some(names)) => (names, None),
            _ => return Err("a request must have either name or names".into()),
        };
        let label = self.label.filter(|label| !label.is_empty()).unwrap_or_else(|| default_label.to_owned());
        let ttl = self.ttl_ms.map(Duration::from_millis);
        Ok(ValidRequest { names, mode, ttl, wait, label, is_keyed })
    }
}

/// Checks the length of a key or an owner. `kind` is `KEY` or `OWNER`.
pub(super) fn check_secret(kind: &str, secret: String) -> Result<String, String> {
    if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        return Ok(secret);
    }
    let bounds = format!("{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes");
    Err(format!("{kind} must have {bounds}, with 128 random bits or more"))
}

/// Derives an owner from an idempotency key and the name of a lock.
pub(super) fn owner_of_key(name: &str, key: &str) -> Owner {
    hash_to_owner(&[b"quorlock key", name.as_bytes(), key.as_bytes()])
}

fn owner_of_secret(secret: &str) -> Owner {
    hash_to_owner(&[b"quorlock owner", secret.as_bytes()])
}

fn hash_to_owner(parts: &[&[u8]]) -> Owner {
    // Include the lengths, so that no two lists of parts have the same bytes.
    let with_length = |part: &&[u8]| [&(part.len() as u64).to_be_bytes(), *part].concat();
    let hash = sha256(&parts.iter().flat_map(with_length).collect::<Vec<u8>>());
    Owner::from_bits(hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte)))
}

/// A callback for the progress of a wait.
pub(super) type Observer = Box<dyn Fn(&Progress) + Send + Sync>;

impl ValidRequest {
    /// Returns the problem for a failed acquire.
    fn to_problem(&self, error: AcquireError) -> Problem {
        let is_held = matches!(
            &error,
            AcquireError::Held(held) | AcquireError::WaitTimeout(held) if held.holder.is_some() || held.remaining.is_some()
        );
        let problem = Problem::from(error);
        match self.mode {
            Some(Mode::Slot { permits, .. }) if is_held => {
                problem.with_prefix(format_args!("none of the {permits} slots is free"))
            }
            _ => problem,
        }
    }

    /// Acquires all locks of the request.
    ///
    /// # Cancel safety
    /// Dropping the future releases the locks.
    pub(super) async fn acquire(&self, service: &Service, observer: Option<Observer>) -> Result<Leases, Problem> {
        let acquire = async {
            match (self.mode, self.names.as_slice()) {
                (Some(mode), [name]) => {
                    let lock = self.with_options(service.client.lock_as(name, mode), observer);
                    lock.acquire_within(self.wait).await.map(Leases::from)
                }
                (_, names) => self.with_options(service.client.all(names), observer).acquire_within(self.wait).await,
            }
        };
        service.run_unless_stopping(acquire).await?.map_err(|error| self.to_problem(error))
    }

    fn with_options<K>(&self, lock: Lock<K>, observer: Option<Observer>) -> Lock<K> {
        let mut lock = lock.label(&self.label);
        if let Some(observer) = observer {
            lock = lock.observe(observer);
        }
        match self.ttl {
            Some(ttl) => lock.ttl(ttl),
            None => lock,
        }
    }
}
