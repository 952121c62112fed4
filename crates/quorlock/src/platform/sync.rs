//! The library's only mutexes, and all atomics of attempts, leases, links and timers. With the feature `sim`, a test
//! can [interleave](crate::platform::sim::interleave) threads: the test chooses which thread takes the next step.

#[cfg(feature = "sim")]
use std::sync::TryLockError;
use std::sync::{MutexGuard, PoisonError};

#[cfg(feature = "sim")]
pub(crate) use interleaved::{AtomicBool, AtomicI64, AtomicU64};
#[cfg(not(feature = "sim"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// A mutex without poisoning: a panic of one caller must not make the mutex unusable for all others.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(feature = "sim")]
        if let Some((step, wait)) = crate::platform::sim::interleaving() {
            step();
            loop {
                match self.lock_if_free() {
                    Some(guard) => return guard,
                    // All interleaved threads run on this one thread: blocking it would block them all.
                    None => wait(),
                }
            }
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "sim")]
    fn lock_if_free(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "sim")]
mod interleaved {
    use std::sync::atomic::{self, Ordering};

    use crate::platform::sim::interleaving;

    pub(super) fn step() {
        if let Some((step, _)) = interleaving() {
            step();
        }
    }

    macro_rules! atomics {
        ($($name:ident $value:ty: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty),*;)*) => {$(
            /// An atomic that calls `step` of [`interleave`](crate::platform::sim::interleave) before each operation.
            #[derive(Debug)]
            pub(crate) struct $name(atomic::$name);

            impl Default for $name {
                fn default() -> Self {
                    Self::new(<$value>::default())
                }
            }

            impl $name {
                pub(crate) const fn new(value: $value) -> Self {
                    Self(atomic::$name::new(value))
                }

                $(pub(crate) fn $method(&self, $($argument: $type),*) -> $result {
                    step();
                    self.0.$method($($argument),*)
                })*
            }
        )*};
    }

    atomics! {
        AtomicBool bool: load(order: Ordering) -> bool, store(value: bool, order: Ordering) -> (),
            swap(value: bool, order: Ordering) -> bool;
        AtomicI64 i64: load(order: Ordering) -> i64, store(value: i64, order: Ordering) -> ();
        AtomicU64 u64: load(order: Ordering) -> u64, store(value: u64, order: Ordering) -> (),
            fetch_add(value: u64, order: Ordering) -> u64;
    }
}
