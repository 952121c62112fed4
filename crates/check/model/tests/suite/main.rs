//! The searches of the core, and the pages about them.

mod evidence;
mod fair;
mod jumps;
mod kinds;
mod rosters;
mod rules;
mod slots;
mod waiting;
