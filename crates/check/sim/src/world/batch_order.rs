//! The order in which a node executes the requests of a batch: similar requests together, as a Redis server does.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorlock_core::request::Request;
use quorlock_core::terms::Mode;

/// The indexes of the messages in the order of execution: releases first, then exclusive acquires, then renewals of
/// exclusive locks, then all other requests. Requests about one name keep their order. A whole batch keeps its order if
/// only some of its requests are plain, or if a request leaves a tombstone: a tombstone belongs to an attempt and not to
/// a name.
pub(super) fn execution_order(messages: &[(String, Arc<Request>)]) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..messages.len()).collect();
    let plain_requests = messages.iter().filter(|(_, request)| request.is_plain()).count();
    if (1..messages.len()).contains(&plain_requests) || messages.iter().any(|(_, request)| leaves_tombstone(request)) {
        return indexes;
    }
    let mut latest_ranks: BTreeMap<&str, u8> = BTreeMap::new();
    let mut ranks = Vec::with_capacity(messages.len());
    for (key, request) in messages {
        let earlier_rank = latest_ranks.get(key.as_str()).copied();
        let rank = match (&**request, earlier_rank) {
            (Request::PlainRelease { .. } | Request::Release { parting: None, .. }, None) => 0,
            (Request::Acquire { mode: Mode::EXCLUSIVE, .. }, None | Some(0)) => 1,
            (Request::Renew { mode: Mode::EXCLUSIVE, .. } | Request::PlainExtend { .. }, None | Some(0)) => 2,
            _ => 3,
        };
        // After a request that is not a release, all later requests about this name get rank 3, which keeps their order.
        latest_ranks.insert(key, if rank == 0 { 0 } else { 3 });
        ranks.push(rank);
    }
    indexes.sort_by_key(|index| ranks[*index]);
    indexes
}

fn leaves_tombstone(request: &Request) -> bool {
    matches!(request, Request::Break { .. } | Request::Retire { .. } | Request::Release { tombstone: Some(_), .. })
}

#[cfg(test)]
mod tests {
    use quorlock_core::fence::Fence;
    use quorlock_core::name::LeaseId;
    use quorlock_core::time::Ttl;

    use super::*;

    fn release(name: &str, tombstone: Option<u64>) -> (String, Arc<Request>) {
        let attempt = LeaseId::from_bits(1);
        (name.into(), Arc::new(Request::Release { attempt, tombstone, parting: None }))
    }

    fn acquire(name: &str) -> (String, Arc<Request>) {
        let ttl = Ttl::new(std::time::Duration::from_secs(1), std::time::Duration::MAX).unwrap();
        let (attempt, proposal, mode) = (LeaseId::from_bits(2), Fence::new(1), Mode::EXCLUSIVE);
        (name.into(), Arc::new(Request::Acquire { attempt, proposal, ttl, holder: "".into(), mode, waiter: None }))
    }

    fn renew(name: &str) -> (String, Arc<Request>) {
        let ttl = Ttl::new(std::time::Duration::from_secs(1), std::time::Duration::MAX).unwrap();
        let (attempt, fence, mode) = (LeaseId::from_bits(2), Fence::new(1), Mode::EXCLUSIVE);
        (name.into(), Arc::new(Request::Renew { attempt, fence, ttl, repair: true, holder: "".into(), mode }))
    }

    #[test]
    fn similar_requests_share_a_command_and_each_name_keeps_its_order() {
        let messages = [acquire("a"), release("b", None), release("a", None), acquire("b"), acquire("a")];
        assert_eq!(execution_order(&messages), [1, 0, 3, 2, 4]);
        let messages = [renew("a"), acquire("a"), renew("b"), acquire("c"), release("b", None), release("d", None)];
        assert_eq!(execution_order(&messages), [5, 3, 0, 2, 1, 4]);
        assert_eq!(execution_order(&[acquire("a"), release("b", Some(1)), release("c", None)]), [0, 1, 2]);
    }
}
