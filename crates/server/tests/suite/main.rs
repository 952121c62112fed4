//! Tests of the HTTP service. Each test runs a service in its own process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod auth;
mod fences;
mod hostile;
mod invalid_requests;
mod keys;
mod leases;
mod log_and_metrics;
mod many_clients;
mod modes;
mod page;
mod readers;
mod reading;
mod service;
mod stopping;
mod vanished_hosts;
mod waiting;
mod web_handler;
