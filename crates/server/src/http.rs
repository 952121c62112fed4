//! Connections: accepting them, TLS, callers that hang up, and requests as they arrive.

mod fd_limit;
pub(crate) mod hang_up;
pub(crate) mod listener;
pub(crate) mod request;
pub(crate) mod tls;
