//! The key of a state: states with the same key have the same future.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quorlock_core::digest::Digest;
use quorlock_core::name::LeaseId;
use quorlock_core::node::QueuedWaiter;
use quorlock_core::request::Request;
use quorlock_core::vote::Handoff;

use super::World;
use super::client::Message;

impl World {
    /// Everything that affects the future, as text. `Debug` hides attempts, so the text shows for each attempt its
    /// client and the number of later attempts of that client. Fences are replaced by small numbers. The state of the
    /// random generator is left out, because without a seed it has no effect.
    pub fn key(&self) -> String {
        let mut latest = vec![0; self.clients.len()];
        self.attempts.values().for_each(|(client, serial)| latest[*client] = latest[*client].max(*serial));
        let name =
            |attempt: &LeaseId| self.attempts.get(attempt).map(|(client, serial)| (client, latest[*client] - serial));
        let mut key = format!("{:?}{:?}", self.now, self.fences);
        for record in &self.records {
            let votes = record.vote.as_ref().map(|vote| (name(&vote.attempt), vote.until));
            let mut entries: Vec<_> =
                record.entries.iter().map(|entry| (name(&entry.attempt), entry.slot, entry.until)).collect();
            entries.sort_unstable();
            let fence = record.fence.as_ref().map(|note| (note.fence, note.ticket));
            let stored_request = |queued: &QueuedWaiter| match &queued.request {
                Some((_, Request::Acquire { attempt, proposal, ttl, .. })) => Some((name(attempt), *proposal, *ttl)),
                _ => None,
            };
            let queue: Vec<_> = record
                .queue
                .iter()
                .map(|queued| (queued.waiter.channel, queued.until, stored_request(queued)))
                .collect();
            let _ = write!(key, "|{votes:?}{entries:?}{fence:?}{queue:?}");
        }
        for client in &self.clients {
            let _ = write!(
                key,
                "|{:?}{:?}",
                client.machine,
                client.hold.as_ref().map(|hold| (hold.terms().mode, hold.fence()))
            );
            for link in &client.links {
                let _ = write!(key, "/{}", link.hints);
                for (request, sent) in &link.requests {
                    let _ = write!(key, "{:?}{sent:?}{request:?}", name(&request.attempt()));
                }
                for message in &link.replies {
                    let _ = match message {
                        Message::Vote(attempt, outcome) => write!(key, "{:?}{outcome:?}", name(attempt)),
                        Message::Handoff(Handoff { attempt, fence }) => {
                            let asking_attempt =
                                self.attempts.keys().find(|other| Digest::of(**other) == *attempt).and_then(name);
                            write!(key, "{asking_attempt:?}{fence:?}")
                        }
                    };
                }
            }
        }
        with_small_fences(&key)
    }
}

/// Replaces the fences in the text by small numbers in the same order. Distances up to `DISTANCE_MAX` stay the same,
/// and larger distances become `DISTANCE_MAX`.
fn with_small_fences(text: &str) -> String {
    const DISTANCE_MAX: u64 = 4;
    let number = |part: &str| part.split(')').next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or_default();
    let parts: Vec<&str> = text.split("Fence(").collect();
    let mut fences: Vec<u64> = parts.iter().skip(1).map(|part| number(part)).collect();
    fences.sort_unstable();
    fences.dedup();
    let mut ranks = BTreeMap::new();
    let (mut last, mut rank) = (0, 0);
    for fence in fences {
        rank += (fence - last).min(DISTANCE_MAX);
        last = fence;
        ranks.insert(fence, rank);
    }
    let mut ordered = String::from(parts[0]);
    for part in &parts[1..] {
        ordered.push_str(&ranks[&number(part)].to_string());
        ordered.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    ordered
}
