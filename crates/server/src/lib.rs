//! Locks over HTTP, for programs in any language: the service behind `quorlock serve`.
//!
//! The service uses only the public API of the `quorlock` crate, and keeps no state that callers depend on: any number
//! of replicas can serve the same nodes, and every replica can handle every request. `docs/service.md` describes the
//! calls. The service also returns an `OpenAPI` document at `/openapi.json`, which is generated from the code.
//!
//! # The page
//!
//! The page is a web interface for operators. Its files are in `assets/` of this crate, and are built into the binary.
//! The service returns them at `/` and `/assets/..` without authentication, because they contain no secret. The page
//! gets all its data from the calls of this service. It reads [`/v1/events`](#the-stream-of-events) with `fetch`,
//! because an `EventSource` cannot send an `Authorization` header.
//!
//! # The stream of events
//!
//! `GET /v1/events` returns `text/event-stream`. The stream starts with a `snapshot`, or continues after the reader's
//! `Last-Event-ID` if this replica still has the events after it. Then the stream reports changes:
//!
//! | event | data |
//! |---|---|
//! | `snapshot` | `{at_ms, nodes, locks, history, outages, lapses}`: the full state at the time `at_ms`, which replaces all earlier events |
//! | `lock` | a lock that is new or has changed, as `GET /v1/locks/{name}` returns it, and the number of `renewals` that this replica has seen; `left_ms` is the remaining time of the lease, counted from `at_ms` |
//! | `gone` | `{name}`: the lock is no longer held or waited for |
//! | `nodes` | all nodes, as `GET /v1/nodes` returns them |
//! | `history` | one event of the history; the event `lapsed` means that, according to this replica, a lease expired because nobody renewed it |
//! | `gap` | `{at_ms}`: some events before the time `at_ms` are missing from the stream, because there were more events than the nodes keep |
//! | `node` | `{at_ms, node, what, reason}`: according to this replica, a node stopped or resumed voting, or restarted |
//! | `look` | `{at_ms, took_ms, locks, is_truncated, trouble}`: the service has read the nodes, which it does about once a second. If no `look` event arrives, the stream has stalled. If `trouble` is not null, the locks could not be read, and their last known state still applies |
//!
//! Every event has an `id`. Only the replica that sent an event can continue after its `id`; another replica starts
//! with a `snapshot`. If a reader is so slow that events after its snapshot are no longer kept, the service closes its
//! stream.

mod api;
mod auth;
mod config;
mod http;
mod hub;
mod lease_id;
mod limiter;
mod metrics;
mod name_limiter;
mod page;
mod problem;
mod service;
mod trace;
mod view;

pub use auth::{Clients, ClientsError, hash_bearer_token};
pub use config::{Config, Limits};
pub use http::listener::{ServeError, Server};
pub use http::tls::Tls;
