//! The commands, one module each.

pub(crate) mod bench;
pub(crate) mod breaking;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod man;
pub(crate) mod nodes;
pub(crate) mod run;
