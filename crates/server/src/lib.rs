//! Locks over HTTP, for programs in any language: the service behind `quorlock serve`.
//!
//! It is a client of the library's public API and keeps no state that a caller depends on: any number of replicas can serve
//! the same nodes, and each of them can take any request. `docs/service.md` describes the calls, and so does the `OpenAPI`
//! document that is generated from the code, at `/openapi.json`.
//!
//! # The page
//!
//! The files of the page are in `assets/` of this crate, are built into the binary, and are served at `/` and `/assets/..`
//! without authentication, because they contain no secret. The page uses only this API. It reads
//! [`/v1/events`](#the-stream-of-events) with `fetch`, because an `EventSource` cannot send an `Authorization` header.
//!
//! # The stream of events
//!
//! `GET /v1/events` is `text/event-stream`. It starts with a `snapshot`, unless it can continue after the `Last-Event-ID`
//! of the reader, and then reports changes:
//!
//! | event | data |
//! |---|---|
//! | `snapshot` | `{at_ms, nodes, locks, history, outages, lapses}`: everything, as of now. It replaces all earlier events |
//! | `lock` | one lock that is new or has changed, as `GET /v1/locks/{name}` gives it, with `renewals` seen so far; `left_ms` is as of `at_ms` |
//! | `gone` | `{name}`: it is no longer held or waited for |
//! | `nodes` | all nodes, as `GET /v1/nodes` gives them |
//! | `history` | one event of the history; or `lapsed`: a lease that nobody renewed, as this replica has seen it |
//! | `gap` | `{at_ms}`: more events happened before this than the nodes keep; some were not reported |
//! | `node` | `{at_ms, node, what, reason}`: a node stopped or resumed voting, or restarted, as this replica has seen it |
//! | `look` | `{at_ms, took_ms, locks, is_cut, trouble}`: the nodes were read, about once a second. A stream without it has stalled. With `trouble`, the locks could not be read, and their last state still applies |
//!
//! Every event has an `id`. Another replica does not know it, and starts with a `snapshot`. A reader that is too slow for
//! the events after its snapshot is disconnected, and has to start again.

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
mod trace;
mod view;

pub use auth::{Clients, ClientsError, hash_bearer_token};
pub use config::{Config, Limits};
pub use http::listener::{ServeError, Server};
pub use http::tls::Tls;
