//! The commands, one module each.

pub(crate) mod acquire;
pub(crate) mod bench;
pub(crate) mod break_lock;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod history;
pub(crate) mod lease;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod nodes;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod watch;
