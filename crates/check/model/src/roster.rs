//! Searches the rules about who may vote: rosters, their generations, and the votes that count in each.
//!
//! Real: `node::roster::apply_roster` and `node::roster::vote` (with `node::apply`) on every server, `View` and `Proposer`
//! of `core::roster` in every client, and `Quorum`, `Record`, the seal of fences and the validity of leases.
//!
//! Simplified:
//!
//! - A handshake and the next request are one step. A request with an old epoch is not sent, because the node would
//!   refuse it and change nothing.
//! - A client is not an `Acquire` and a `Hold`. It asks one server at a time, keeps one vote for each member id, and wins
//!   when a majority of the members has granted one fence. It does not release: votes expire.
//! - A request and its answer are one step, so no message is in flight. A proposer that acts late stands for a request
//!   that arrives late.
//! - A client reads all servers that it reaches in one step. If it finds its roster settled, it marks the roster as
//!   settled on the servers that have it. A server that loses its memory gets its new id in the same step.
//! - In most configurations a proposer gets all promises in one step. It always gets acceptances one by one.
//! - Time passes in steps of 1.1 x `max_ttl`, or of half of that. There is one lock name.

mod client;
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
