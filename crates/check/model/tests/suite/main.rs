//! Tests of the searches of the core, and of the pages about them.

mod evidence;
mod fair;
mod jumps;
mod kinds;
mod rosters;
mod rules;
mod slots;
mod waiting;
