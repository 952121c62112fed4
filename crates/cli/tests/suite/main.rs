//! The tests of the command-line tool. They are one binary, because linking is slow.

mod bench;
mod breaking;
mod common;
mod config;
mod demo;
mod doctor;
mod failover_nodes;
mod help;
mod lease;
mod list;
mod locks_file;
mod nodes;
mod run;
mod serve;
mod status;
mod watch;
