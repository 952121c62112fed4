//! Tests of the searches of the core, and of the pages about them.

mod clock_jumps;
mod evidence;
mod fair;
mod kinds_with_restart;
mod rosters;
mod rules;
mod slots;
mod waiting;
