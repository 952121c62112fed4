//! Nodes that lose their memory, and nodes of other clusters. Their votes must not help to grant a lock to two clients.

mod claims;
mod founding;
mod identity;
mod membership;
mod persistence;
mod quarantine;
mod reconfigure;
