//! The same names without async.
