//! Model-checks the shipped core: searches the state machines of `quorlock-core` themselves, clients and nodes, in
//! every order of events within bounds, with all rules of the protocol and without each of them in turn.

pub mod queue;
pub mod report;
pub mod roster;
pub mod run_info;
pub mod scenario;
pub mod search;
pub mod setup;
pub mod slots;
pub mod words;
pub mod world;
