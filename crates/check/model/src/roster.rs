//! Searches the rules about who may vote: rosters, their generations, and the votes that count in each.
//!
//! Real: `node::roster::apply_roster` and `node::roster::vote` (with `node::apply`) on every server, `View` and `Proposer`
//! of `core::roster` in every client, and `Quorum`, `Record`, the seal of fences and the validity of leases.
//!
//! Simplified:
//!
//! - A handshake and the request after it are one step: a request that names an old epoch is not sent, because the node
//!   refuses it without a change.
//! - A client is not an `Acquire` and a `Hold`. It asks one server at a time, keeps one vote for each member id, and wins
//!   when a majority of the members has granted one fence. It does not release: votes expire.
//! - A request and its answer are one step, so nothing is under way. A proposal's request that arrives late is one of a
//!   proposer that acts late.
//! - A client that looks reads all servers that it reaches in one step, and tells those with its roster that the roster
//!   is settled. A server gets its fresh id in the step in which it loses its memory.
//! - In most configurations a proposer gets all promises in one step. Its acceptances are always single steps.
//! - Time passes in steps of a whole or half a `max_ttl` and a tenth. There is one name.

mod beginnings;
mod client;
mod heal;
mod propose;
mod report;
mod scenarios;
mod search;
mod server;
mod setup;
mod tell;
mod vote;
mod world;

pub use report::{Caught, HEAD, MUTANTS_HEAD, Searched, section};
pub use scenarios::{CONFIGURATIONS, Configuration, MUTANTS, Mutant};
pub use search::{exhaust, shortest, shortest_to_stuck};
pub use setup::{Budget, ClientSpec, Flaw, Order, Setup};
pub use world::{Action, World};
