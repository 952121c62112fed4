//! Checks a request for a lease, and acquires it.

use std::time::Duration;

use quorlock::{AcquireError, Client, Leases, Lock, Mode, Owner, PERMITS_MAX, Progress};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::auth::sha256;
use crate::config::Limits;
use crate::problem::Problem;
use crate::service::Service;

/// The shortest key or owner: the length of 128 random bits in base64.
const SECRET_BYTES_MIN: usize = 22;
/// The longest key or owner.
const SECRET_BYTES_MAX: usize = 256;
/// The names of the two kinds of secret, for messages.
pub(super) const KEY: &str = "a key";
const OWNER: &str = "an owner";

/// A request for a lease. It has either `name` or `names`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    /// The name of the lock: 1 to 512 bytes.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// The names of several exclusive locks. The request acquires all of them or none.
    #[schema(min_items = 1, max_items = 1000)]
    names: Option<Vec<String>>,
    /// An idempotency key that the caller chooses, of 128 random bits or more. If the caller repeats the request with
    /// the same key, on any replica, it gets the same lock again instead of waiting for itself. Not allowed with
    /// `names`, `slots` or `owner`.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// The owner of a reentrant lock, of 128 random bits or more. Requests with the same owner may acquire the lock
    /// again while it is held. The owner is a secret. Not allowed with `names` or `slots`.
    #[schema(min_length = 22, max_length = 256)]
    owner: Option<String>,
    /// The lifetime of the lease after each renewal. Without it, the ttl of the service applies, which is 30 s by
    /// default.
    #[schema(minimum = 100, example = 30000)]
    ttl_ms: Option<u64>,
    /// The longest time to wait for the lock. Without it, the request does not wait.
    #[serde(default)]
    #[schema(example = 5000)]
    wait_ms: u64,
    /// The mode in which to hold the lock.
    #[serde(default)]
    mode: HoldMode,
    /// The number of slots, which is the largest number of holders. Only with the mode `slots`; all users of a name
    /// must pass the same number.
    #[schema(minimum = 1, maximum = 1024)]
    slots: Option<u32>,
    /// The label that identifies the holder to others, truncated to 128 bytes. Without it, the name or address of the
    /// client.
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

/// A valid request.
pub(super) struct Order {
    /// The names, in the order of the request.
    pub(super) names: Vec<String>,
    /// The mode of a single name. `None` for `names`, whose locks are all exclusive.
    pub(super) mode: Option<Mode>,
    pub(super) ttl: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) label: String,
    pub(super) is_keyed: bool,
}

impl LeaseRequest {
    pub(super) fn check(self, client: &Client, limits: Limits, caller: &str) -> Result<Order, Problem> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > limits.max_wait {
            let most = limits.max_wait.as_millis();
            return Err(Problem::invalid(format!(
                "wait_ms must be at most {most} (got {}): repeat the request to wait longer",
                self.wait_ms
            )));
        }
        if self.names.is_some() && (self.mode != HoldMode::Exclusive || self.slots.is_some()) {
            return Err(Problem::invalid("the locks of several names are exclusive: leave out mode and slots"));
        }
        let (secret_kind, secret) = match (self.key, self.owner) {
            (Some(_), Some(_)) => return Err(Problem::invalid("a request must not have both a key and an owner")),
            (Some(key), None) => (KEY, Some(check_secret(KEY, key)?)),
            (None, owner) => (OWNER, owner.map(|owner| check_secret(OWNER, owner)).transpose()?),
        };
        let is_keyed = secret_kind == KEY;
        let (names, mode) = match (self.name, self.names) {
            (Some(name), None) => {
                let owner = secret.map(|secret| if is_keyed { of_key(&name, &secret) } else { of(&secret) });
                let mode = match (self.mode, self.slots, owner) {
                    (HoldMode::Slots, None, _) | (HoldMode::Exclusive | HoldMode::Shared, Some(_), _) => {
                        return Err(Problem::invalid(
                            "the mode \"slots\" needs a number of slots, and a number of slots needs this mode",
                        ));
                    }
                    (HoldMode::Slots, Some(slots), _) if !(1..=PERMITS_MAX).contains(&slots) => {
                        return Err(Problem::invalid(format!(
                            "slots must be between 1 and {PERMITS_MAX} (got {slots})"
                        )));
                    }
                    (HoldMode::Slots, Some(_), Some(_)) => {
                        return Err(Problem::invalid(format!("a request with slots must not have {secret_kind}")));
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
                return Err(Problem::invalid(format!("a request with several names must not have {secret_kind}")));
            }
            (None, Some(names)) if names.len() > limits.batch => {
                return Err(Problem::invalid(format!("{} names are too many: at most {}", names.len(), limits.batch)));
            }
            (None, Some(names)) => (names, None),
            _ => return Err(Problem::invalid("a request must have either name or names")),
        };
        let label = self.label.filter(|label| !label.is_empty()).unwrap_or_else(|| caller.to_owned());
        let ttl = self.ttl_ms.map(Duration::from_millis);
        Ok(Order { names, mode, ttl, wait, label, is_keyed })
    }
}

pub(super) fn check_secret(what: &str, secret: String) -> Result<String, Problem> {
    if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&secret.len()) {
        return Ok(secret);
    }
    let bounds = format!("{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes");
    Err(Problem::invalid(format!("{what} must have {bounds}, with 128 random bits or more")))
}

/// Derives an owner from an idempotency key. The same key gives another owner for each name.
pub(super) fn of_key(name: &str, key: &str) -> Owner {
    hashed(&[b"quorlock key", name.as_bytes(), key.as_bytes()])
}

fn of(owner: &str) -> Owner {
    hashed(&[b"quorlock owner", owner.as_bytes()])
}

fn hashed(parts: &[&[u8]]) -> Owner {
    // Include the lengths, so that no two lists of parts have the same bytes.
    let with_length = |part: &&[u8]| [&(part.len() as u64).to_be_bytes(), *part].concat();
    let hash = sha256(&parts.iter().flat_map(with_length).collect::<Vec<u8>>());
    Owner::from_bits(hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte)))
}

/// A callback for the progress of a wait.
pub(super) type Observer = Box<dyn Fn(&Progress) + Send + Sync>;

impl Order {
    /// Returns the problem for a failed acquire.
    fn refused(&self, error: AcquireError) -> Problem {
        let is_taken = matches!(
            &error,
            AcquireError::Held(held) | AcquireError::WaitTimeout(held) if held.holder.is_some() || held.remaining.is_some()
        );
        let problem = Problem::from(error);
        match self.mode {
            // All slots are taken, or the name is held in another mode.
            Some(Mode::Slot { permits, .. }) if is_taken => {
                problem.at(format_args!("none of the {permits} slots is free"))
            }
            _ => problem,
        }
    }

    /// Acquires the names. Dropping the future releases all of them.
    pub(super) async fn acquire(&self, service: &Service, observer: Option<Observer>) -> Result<Leases, Problem> {
        let acquiring = async {
            match (self.mode, self.names.as_slice()) {
                (Some(mode), [name]) => {
                    let lock = self.set(service.client.lock_as(name, mode), observer);
                    lock.acquire_within(self.wait).await.map(Leases::from)
                }
                (_, names) => self.set(service.client.all(names), observer).acquire_within(self.wait).await,
            }
        };
        service.unless_stopping(acquiring).await?.map_err(|error| self.refused(error))
    }

    fn set<K>(&self, lock: Lock<K>, observer: Option<Observer>) -> Lock<K> {
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
