//! Waiting in the queue: its order, hints, deadlines, and waiters that die or give up.

mod dying_clients;
mod fault_run;
mod foreign_programs;
mod hints;
mod lease_history;
mod leaving_the_queue;
mod many_waiters;
mod node_recovery;
mod split_votes;
mod waiters;
