//! Waiting in line: order, herds, hints, deadlines, and what is left behind.

#[path = "../common/mod.rs"]
mod common;
mod herd;
