//! Connections: accepting them, reading and writing with limits, TLS, and requests as they arrive.

pub(crate) mod connection;
mod fd_limit;
pub(crate) mod listener;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod tls;
mod write;
