//! Real servers, real clients, real faults; and a judge of what came of it.
//!
//! An [episode] starts Redis servers, proxies in front of them and client processes that take turns with a few
//! names; it does to them what the [plan] of its seed says, heals everything and lets everyone finish. All that
//! clients say goes into the [history], by one clock, and the [judge] looks at that alone.
//!
//! What can be judged is a [`Subject`](subject::Subject): a program that takes a [`Task`](task::Task) and tells
//! [events](history::Event), in lines of JSON. quorlock is one of them, and other lock libraries are the others.

pub mod clock;
pub mod crew;
pub mod episode;
pub mod history;
pub mod interrupt;
pub mod judge;
pub mod plan;
pub mod register;
pub mod report;
pub mod stage;
pub mod subject;
pub mod task;
pub mod worker;
