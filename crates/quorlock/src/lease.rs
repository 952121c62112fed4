//! The life of a lease: acquiring it, holding it, and giving it back.

pub(crate) mod attempt;
pub(crate) mod held;
