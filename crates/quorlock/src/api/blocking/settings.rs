//! What can be set on every kind of lock, passed on to the kind that is not blocking.

/// The settings of a type with the fields `inner` and `background`, and its `new`.
macro_rules! settings {
    ($kind:ident) => {
        impl $kind {
            pub(super) fn new(inner: crate::$kind, background: &std::sync::Arc<super::background::Background>) -> Self {
                Self { inner, background: std::sync::Arc::clone(background) }
            }

            fn map(self, change: impl FnOnce(crate::$kind) -> crate::$kind) -> Self {
                Self { inner: change(self.inner), background: self.background }
            }

            #[doc = concat!("See [`crate::", stringify!($kind), "::ttl`].")]
            #[must_use]
            pub fn ttl(self, ttl: std::time::Duration) -> Self {
                self.map(|inner| inner.ttl(ttl))
            }

            #[doc = concat!("See [`crate::", stringify!($kind), "::label`].")]
            #[must_use]
            pub fn label(self, label: &str) -> Self {
                self.map(|inner| inner.label(label))
            }
        }
    };
    ($kind:ident, waiting) => {
        super::settings::settings!($kind);

        impl $kind {
            #[doc = concat!("See [`crate::", stringify!($kind), "::renewals`].")]
            #[must_use]
            pub fn renewals(self, renewals: quorlock_core::watchdog::Renewals) -> Self {
                self.map(|inner| inner.renewals(renewals))
            }

            #[doc = concat!("See [`crate::", stringify!($kind), "::retry`].")]
            #[must_use]
            pub fn retry(self, retry: quorlock_core::backoff::Retry) -> Self {
                self.map(|inner| inner.retry(retry))
            }

            #[doc = concat!("See [`crate::", stringify!($kind), "::observe`].")]
            #[must_use]
            pub fn observe(self, observer: impl Fn(&crate::Progress) + Send + Sync + 'static) -> Self {
                self.map(|inner| inner.observe(observer))
            }
        }
    };
}
pub(super) use settings;
