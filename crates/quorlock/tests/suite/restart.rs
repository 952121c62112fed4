//! Nodes that lose their memory, and nodes that do not belong together: none of them may help to win a lock twice.

mod claims;
mod founding;
mod identity;
mod membership;
mod persistence;
mod quarantine;
mod reconfigure;
