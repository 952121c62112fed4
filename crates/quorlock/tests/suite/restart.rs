//! Nodes that lose their memory, and nodes of different clusters: none of them may help to grant a lock twice.

mod claims;
mod founding;
mod identity;
mod membership;
mod persistence;
mod quarantine;
mod reconfigure;
