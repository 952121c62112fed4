//! Connections: accepting, TLS, callers that hang up, and parsing of requests.

mod fd_limit;
pub(crate) mod hang_up;
pub(crate) mod listener;
pub(crate) mod request;
pub(crate) mod tls;
