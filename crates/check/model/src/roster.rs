//! Searches the rules about who may vote: rosters, their generations, and the votes that count in each.
//!
//! Real: `node::roster::apply_roster` and `node::roster::vote` (with `node::apply`) on every server, and in every client
//! `View` and `Proposer` of `core::roster`, and an `Acquire` and then a `Hold`, which follow the client's roster while
//! they live.
//!
//! Simplified:
//!
//! - A handshake and the next request are one step. A request with an old epoch is not sent, because the node would
//!   refuse it and change nothing.
//! - A request and its answer are one step. A request that waits to be sent stands for one that arrives late, and so
//!   does a proposer that acts late. An answer that counts at a server with an older roster than the client stands for
//!   an answer that arrives after the client has learned the roster.
//! - Requests that cannot be granted are not sent: a server that has granted another client answers too late. There is
//!   one lock, no client waits in its queue, and nothing is released: votes expire. An acquire ends after a ttl.
//! - A client reads all servers that it reaches in one step. If it finds its roster settled, it marks the roster as
//!   settled on the servers that have it. A server that loses its memory gets its new id in the same step.
//! - In most configurations a proposer gets all promises in one step. It always gets acceptances one by one.
//! - Time passes in steps of 1.1 x `max_ttl`, or of half of that.

mod client;
mod electors;
mod proposal;
mod recovery;
mod report;
mod scenarios;
mod search;
mod server;
mod setup;
mod setups;
mod trace;
mod vote;
mod world;

pub use report::{ConfigurationResult, HEAD, MUTANTS_HEAD, MutantResult, section};
pub use scenarios::{CONFIGURATIONS, Configuration, MUTANTS, Mutant};
pub use search::{find_shortest_path_to_stuck, find_shortest_violation, search_all_states};
pub use setup::{Budget, ClientSpec, Flaw, MembershipChange, Setup};
pub use world::{Action, World};
