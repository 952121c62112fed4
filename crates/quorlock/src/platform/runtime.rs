//! The library's only way to spawn tasks and to sleep: with tokio, or in a [simulation](crate::platform::sim).

use std::time::Duration;

pub(crate) use tokio::time::Instant;

/// The error of [`timeout`]: the time limit passed before the future completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

/// Spawns a background task.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return world.spawn(Box::pin(task));
    }
    tokio::spawn(task);
}

/// Runs blocking work on a separate thread, so that the work blocks no task. Returns `None` if the runtime shuts down.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

/// Returns the current instant by the clock that [`sleep_until`] uses.
pub(crate) fn now() -> Instant {
    #[cfg(feature = "sim")]
    if let Some(world) = crate::platform::sim::world() {
        return crate::platform::sim::instant(world.now());
    }
    Instant::now()
}

/// Returns the time since `earlier`.
pub(crate) fn since(earlier: Instant) -> Duration {
    now().saturating_duration_since(earlier)
}

pub(crate) async fn sleep_until(at: Instant) {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        return crate::platform::sim::Sleep::until(at).await;
    }
    tokio::time::sleep_until(at).await;
}

pub(crate) async fn sleep(delay: Duration) {
    sleep_until(now() + delay).await;
}

/// Awaits the future for at most `limit`.
pub(crate) async fn timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        let limit_passed = sleep(limit);
        return tokio::select! {
            biased;
            output = future => Ok(output),
            () = limit_passed => Err(Elapsed),
        };
    }
    tokio::time::timeout(limit, future).await.map_err(|_| Elapsed)
}

/// Yields to other tasks.
pub(crate) async fn yield_now() {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        // In a simulation, code takes no time. Without this sleep, a task that always has work would stop the clock.
        return sleep(crate::platform::sim::YIELD).await;
    }
    tokio::task::yield_now().await;
}

/// Returns whether this thread can spawn tasks, because it runs inside a runtime or a simulation.
pub(crate) fn can_spawn() -> bool {
    #[cfg(feature = "sim")]
    if crate::platform::sim::is_on() {
        return true;
    }
    tokio::runtime::Handle::try_current().is_ok()
}
