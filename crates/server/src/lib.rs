//! Locks over HTTP, for programs in any language: the service behind `quorlock serve`.
//!
//! It is a client of the library's public API and keeps nothing that a caller depends on: any number of replicas can
//! stand over the same nodes, and any of them takes any request. What the calls are is in `docs/service.md`, and in the
//! `OpenAPI` document that the service makes of its own code, at `/openapi.json`.
//!
//! # The page
//!
//! Files of the page live in `assets/` of this crate, are built into the binary, and are served at `/` and
//! `/assets/..`, without authentication: there is no secret in them. The page is a client of this API and of nothing
//! else. It reads [`/v1/events`](#the-stream-of-events) by `fetch`, since an `EventSource` cannot send an
//! `Authorization` header.
//!
//! # The stream of events
//!
//! `GET /v1/events` is `text/event-stream`. It begins with a `snapshot`, unless it can go on behind the
//! `Last-Event-ID` that the reader names, and then tells what has changed:
//!
//! | event | data |
//! |---|---|
//! | `snapshot` | `{at_ms, nodes, locks, history, outages, lapses}`: everything, as of now. What was known before is void |
//! | `lock` | one lock that is new or has changed, as `GET /v1/locks/{name}` gives it, with `renewals` seen so far; `left_ms` is as of `at_ms` |
//! | `gone` | `{name}`: it is neither held nor waited for any more |
//! | `nodes` | all nodes, as `GET /v1/nodes` gives them |
//! | `history` | one event of the history; or one that is `lapsed`: a lease that nobody renewed, as this replica has seen it |
//! | `gap` | `{at_ms}`: more has happened before this than the nodes keep; some of it was not told |
//! | `node` | `{at_ms, node, what, reason}`: a node that stopped or began to vote, or has restarted, as this replica has seen it |
//! | `look` | `{at_ms, took_ms, locks, is_cut, trouble}`: the nodes were looked at; about once a second. A stream without it has stalled. With `trouble`, the locks could not be looked at, and are as they were |
//!
//! Every event has an `id`. Another replica does not know it, and begins with a `snapshot`. A reader that is so slow that the
//! events after its snapshot are gone is disconnected, and begins again.

mod api;
mod auth;
mod config;
mod http;
mod hub;
mod lease_id;
mod metrics;
mod names;
mod page;
mod problem;
mod rate;
mod service;
mod sync;
mod trace;
mod view;

pub use auth::{Clients, ClientsError, hash_bearer_token};
pub use config::{Config, Limits};
pub use http::listener::{ServeError, Server};
pub use http::tls::Tls;
