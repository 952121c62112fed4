//! Accepts connections, with or without TLS, detects callers that hang up, and parses requests.

mod fd_limit;
pub(crate) mod hang_up;
pub(crate) mod listener;
pub(crate) mod request;
pub(crate) mod tls;
