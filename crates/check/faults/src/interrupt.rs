//! Notices Ctrl-C and SIGTERM, so that the harness can stop all processes and print its results before it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// A flag that Ctrl-C or SIGTERM sets. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C and SIGTERM until the process ends.
    ///
    /// # Errors
    /// When the signal handlers cannot be installed.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (mut int, mut term) = {
            let _entered = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = int.recv() => {}
                    _ = term.recv() => {}
                }
            });
            flag.store(true, Ordering::SeqCst);
        });
        Ok(interrupt)
    }

    /// Whether a signal has arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
