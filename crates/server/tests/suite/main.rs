//! The service, started in the process of the test.

mod fences;
mod stopping;
mod vanished;
