//! The command-line tool and the service, in one test binary because linking is slow.

mod bench;
mod breaking;
mod common;
mod config;
mod demo;
mod doctor;
mod help;
mod lease;
mod list;
mod nodes;
mod run;
mod serve;
mod state;
mod status;
mod trusted;
mod watch;
