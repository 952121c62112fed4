//! A held lease in its client's registry.

use std::sync::Arc;

use quorlock_core::mode::OwnerId;
use quorlock_core::name::LeaseId;

use super::Held;
use crate::cluster::Claim;
use crate::error::LostError;
use crate::platform::clock;

impl Claim for Held {
    fn id(&self) -> LeaseId {
        self.mark.attempt
    }

    fn owner(&self) -> Option<OwnerId> {
        self.entered_by
    }

    fn key(&self) -> &str {
        &self.key.text
    }

    fn doubt(self: Arc<Self>) {
        let mut inner = self.inner();
        let now = inner.moment(clock::now(), clock::wall());
        let steps = inner.hold.doubt(now);
        self.perform(&mut inner, steps);
        self.let_out(inner);
    }

    fn close(&self) {
        self.end(Some(LostError::Closed), None, clock::now());
    }

    fn stop_repair(&self) {
        self.mark.finish();
    }
}
