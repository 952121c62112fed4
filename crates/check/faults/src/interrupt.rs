//! Ctrl-C and SIGTERM: everything is stopped in order, and what there is so far is told.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// Whether somebody wants this to end. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens to the signals from now on, for as long as the process lives.
    ///
    /// # Errors
    /// When they cannot be listened to.
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

    /// Whether it has happened.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
