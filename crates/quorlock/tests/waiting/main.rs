//! Waiting in line: order, herds, hints, deadlines, and what is left behind.

mod comeback;
#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod herd;
mod hints;
mod history;
mod kills;
mod leaving;
mod line;
mod split;
mod storm;
