//! The only mutexes and atomics of attempts, leases, links and timers: the standard library's. With the feature `sim` they let
//! a test that [interleaves](crate::platform::sim::interleave) threads decide who goes on before each of their steps.

#[cfg(feature = "sim")]
pub(crate) use interleaved::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Mutex};
#[cfg(not(feature = "sim"))]
pub(crate) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize},
};

#[cfg(feature = "sim")]
mod interleaved {
    use std::sync::atomic::{self, Ordering};
    use std::sync::{LockResult, MutexGuard, TryLockError, TryLockResult};

    use crate::platform::sim::turns;

    /// A mutex that others may take first.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            let Some(turns) = turns() else { return self.0.lock() };
            (turns.step)();
            loop {
                match self.0.try_lock() {
                    Ok(guard) => return Ok(guard),
                    Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                    // All threads of such a test are one: to block it would be to block them all.
                    Err(TryLockError::WouldBlock) => (turns.wait)(),
                }
            }
        }

        pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            step();
            self.0.try_lock()
        }
    }

    fn step() {
        if let Some(turns) = turns() {
            (turns.step)();
        }
    }

    macro_rules! atomics {
        ($($name:ident $of:ty: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty),*;)*) => {$(
            /// One that others may use first.
            #[derive(Debug)]
            pub(crate) struct $name(atomic::$name);

            impl Default for $name {
                fn default() -> Self {
                    Self::new(<$of>::default())
                }
            }

            impl $name {
                pub(crate) const fn new(value: $of) -> Self {
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
        AtomicU32 u32: load(order: Ordering) -> u32, store(value: u32, order: Ordering) -> (),
            fetch_or(value: u32, order: Ordering) -> u32, fetch_and(value: u32, order: Ordering) -> u32;
        AtomicU64 u64: load(order: Ordering) -> u64, store(value: u64, order: Ordering) -> (),
            fetch_add(value: u64, order: Ordering) -> u64,
            fetch_update(set: Ordering, fetch: Ordering, change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64>;
        AtomicUsize usize: load(order: Ordering) -> usize, fetch_add(value: usize, order: Ordering) -> usize,
            fetch_sub(value: usize, order: Ordering) -> usize;
    }
}
