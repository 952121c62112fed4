//! Tests of the HTTP service. Each test runs a service in the process of the test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod client_limits;
mod fences;
mod hostile;
mod idempotency_keys;
mod invalid_requests;
mod leases;
mod log_and_metrics;
mod many_clients;
mod modes;
mod page;
mod read_only_calls;
mod service;
mod stopping;
mod vanished_hosts;
mod waiting;
mod web_handler;
