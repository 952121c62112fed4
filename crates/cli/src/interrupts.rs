//! The signals that ask us to end.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// From now on INT, TERM, HUP and QUIT are told instead of ending the process where it stands.
pub(crate) struct Interrupts {
    signals: Vec<(i32, Signal)>,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let signals = kinds.into_iter().map(|kind| Ok((kind.as_raw_value(), signal(kind)?)));
        let signals = signals.collect::<std::io::Result<_>>();
        Ok(Self { signals: signals.map_err(|error| Failure::Internal(format!("cannot hear signals: {error}")))? })
    }

    /// The number of the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            let told = self
                .signals
                .iter_mut()
                .find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            told.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
