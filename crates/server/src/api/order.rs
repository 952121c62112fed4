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
/// The two kinds of secret, in messages.
pub(super) const KEY: &str = "a key";
const OWNER: &str = "an owner";

/// What to lock, and how. Either `name` or `names`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    /// What to lock: 1 to 512 bytes.
    #[schema(min_length = 1, max_length = 512, example = "invoices/42")]
    name: Option<String>,
    /// Several names, all of them or none, each alone.
    #[schema(min_items = 1, max_items = 1000)]
    names: Option<Vec<String>>,
    /// 128 random bits or more, of the caller's choice: repeated with the same key, on any replica, the request gives the
    /// same hold, however often. Not with `names`, `slots` or `owner`.
    #[schema(min_length = 22, max_length = 256)]
    key: Option<String>,
    /// A request with the same owner may enter again: 128 random bits or more. It is a secret. Not with `names` or `slots`.
    #[schema(min_length = 22, max_length = 256)]
    owner: Option<String>,
    /// How long the lease lasts from each renewal; the service's own ttl unless set, which is 30 s by default.
    #[schema(minimum = 100, example = 30000)]
    ttl_ms: Option<u64>,
    /// How long to wait for it: not at all unless set.
    #[serde(default)]
    #[schema(example = 5000)]
    wait_ms: u64,
    /// How to hold it.
    #[serde(default)]
    mode: HoldMode,
    /// How many may hold it at a time, with the mode `slots`: the same number for everyone.
    #[schema(minimum = 1, maximum = 1024)]
    slots: Option<u32>,
    /// Shown to callers that find the lock held; cut to 128 bytes. The client's name or address unless set.
    label: Option<String>,
}

/// How to hold a lock.
#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HoldMode {
    /// Alone.
    #[default]
    Exclusive,
    /// Together with others who share.
    Shared,
    /// In one of a fixed number of slots.
    Slots,
}

/// A valid request.
pub(super) struct Order {
    /// The names, in the order of the request.
    pub(super) names: Vec<String>,
    /// The mode of the one name; `None` if `names` was given, each of which is exclusive.
    pub(super) mode: Option<Mode>,
    pub(super) ttl: Option<Duration>,
    pub(super) wait: Duration,
    pub(super) label: String,
    pub(super) is_keyed: bool,
}

impl LeaseRequest {
    pub(super) fn check(self, client: &Client, limits: Limits, caller: &str) -> Result<Order, Problem> {
        let wait = Duration::from_millis(self.wait_ms);
        if wait > limits.wait {
            let most = limits.wait.as_millis();
            return Err(Problem::invalid(format!("wait_ms of {}: at most {most}; ask again after that", self.wait_ms)));
        }
        if self.names.is_some() && (self.mode != HoldMode::Exclusive || self.slots.is_some()) {
            return Err(Problem::invalid("each of several names is locked alone: leave out mode and slots"));
        }
        let (secret_kind, secret) = match (self.key, self.owner) {
            (Some(_), Some(_)) => return Err(Problem::invalid("either a key or an owner")),
            (Some(key), None) => (KEY, Some(check_secret(KEY, key)?)),
            (None, owner) => (OWNER, owner.map(|owner| check_secret(OWNER, owner)).transpose()?),
        };
        let is_keyed = secret_kind == KEY;
        let (names, mode) = match (self.name, self.names) {
            (Some(name), None) => {
                let owner = secret.map(|secret| if is_keyed { of_key(&name, &secret) } else { of(&secret) });
                let mode = match (self.mode, self.slots, owner) {
                    (HoldMode::Slots, None, _) | (HoldMode::Exclusive | HoldMode::Shared, Some(_), _) => {
                        return Err(Problem::invalid("the mode \"slots\" and a number of slots belong together"));
                    }
                    (HoldMode::Slots, Some(slots), _) if !(1..=PERMITS_MAX).contains(&slots) => {
                        return Err(Problem::invalid(format!("slots of {slots}: between 1 and {PERMITS_MAX}")));
                    }
                    (HoldMode::Slots, Some(_), Some(_)) => {
                        return Err(Problem::invalid(format!("a slot cannot have {secret_kind}")));
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
                return Err(Problem::invalid(format!("several names cannot have {secret_kind}")));
            }
            (None, Some(names)) if names.len() > limits.batch => {
                return Err(Problem::invalid(format!("{} names: at most {}", names.len(), limits.batch)));
            }
            (None, Some(names)) => (names, None),
            _ => return Err(Problem::invalid("either a name or names")),
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
    Err(Problem::invalid(format!("{what} has {bounds}, of 128 random bits or more")))
}

/// Returns the owner that a key stands for, which differs from name to name.
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
            // All slots are taken, or somebody holds the name in another mode.
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
