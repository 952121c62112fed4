//! The guarantees that the search checks at every win.

use quorlock_core::fence::Fence;
use quorlock_core::terms::Mode;

use super::World;

impl World {
    /// Checks the guarantees when a client has won with this fence.
    pub(super) fn check_win(&mut self, index: usize, fence: Fence) {
        let modes: Vec<Mode> =
            self.clients.iter().filter_map(|client| Some(client.hold.as_ref()?.terms().mode)).collect();
        let winners_mode = self.clients[index].hold.as_ref().map(|hold| hold.terms().mode);
        match winners_mode {
            Some(Mode::Slot { permits, .. }) => {
                assert!(modes.len() <= permits as usize, "{} holders of {permits} slots", modes.len());
                let has_duplicate = modes.iter().enumerate().any(|(at, mode)| modes[..at].contains(mode));
                assert!(!has_duplicate, "a slot has two holders: {modes:?}");
                assert!(!self.fences.contains(&fence), "a fence was granted twice");
            }
            Some(Mode::Shared { .. }) => {
                assert!(modes.iter().all(|mode| mode.is_shared()), "a reader and a writer hold the lock together");
            }
            _ => {
                assert_eq!(modes.len(), 1, "an exclusive lock must have one holder");
                assert!(
                    self.fences.iter().all(|earlier| *earlier < fence),
                    "a fence is not higher than all earlier fences"
                );
            }
        }
        self.fences.push(fence);
    }
}
