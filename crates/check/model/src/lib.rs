//! Model-checks the shipped core. The searches run the client and node state machines of `quorlock-core` in every order
//! of events within bounds: once with all rules of the protocol, and once without each rule.

pub mod description;
pub mod queue;
pub mod report;
pub mod roster;
pub mod run_info;
pub mod scenario;
pub mod search;
pub mod setup;
pub mod slots;
pub mod world;
