use super::*;

/// Leases of one name given as (fence, from, until), in milliseconds.
fn past_leases(leases: &[(u64, u64, u64)]) -> Vec<PastLease> {
    let past_lease = |&(fence, from, until): &(u64, u64, u64)| PastLease {
        name: "a",
        worker: fence as usize - 1,
        fence,
        from: Duration::from_millis(from),
        until: Duration::from_millis(until),
        is_lost: false,
    };
    leases.iter().map(past_lease).collect()
}

#[test]
fn leases_without_overlaps_are_accepted_in_any_order() {
    let mut past_leases = past_leases(&[(2, 10, 20), (1, 0, 10), (7, 25, 30)]);
    past_leases[2].is_lost = true;
    let findings = Findings::of(&["a", "b"], &past_leases);
    assert!(findings.violations.is_empty());
    assert_eq!((findings.grants, findings.losses, findings.overlaps, findings.fences_increasing), (3, 1, 0, true));
    assert_eq!((findings.names[0].first_fence, findings.names[0].last_fence), (Some(1), Some(7)));
    assert_eq!((findings.names[1].grants, findings.names[1].first_fence), (0, None));
    assert_eq!(findings.to_string(), "3 grants, 1 loss, 0 overlaps, fences increasing");
}

#[test]
fn two_holders_at_the_same_time_are_found() {
    let findings = Findings::of(&["a"], &past_leases(&[(1, 0, 11), (2, 10, 20)]));
    assert_eq!((findings.overlaps, findings.fences_increasing), (1, true));
    assert!(findings.violations[0].starts_with("two holders for 1ms: w1 with a from 0.000000s"), "{findings:?}");
}

#[test]
fn a_long_lease_overlaps_with_every_lease_during_its_time() {
    assert_eq!(Findings::of(&["a"], &past_leases(&[(1, 0, 100), (2, 10, 20), (3, 30, 40)])).overlaps, 2);
}

#[test]
fn fences_that_do_not_grow_are_found() {
    for leases in [[(2, 0, 10), (2, 10, 20)], [(2, 0, 10), (1, 10, 20)]] {
        let findings = Findings::of(&["a"], &past_leases(&leases));
        assert_eq!((findings.violations.len(), findings.overlaps, findings.fences_increasing), (1, 0, false));
    }
    // The last fence is higher than the fence before it, but lower than the second fence.
    assert!(!Findings::of(&["a"], &past_leases(&[(5, 0, 1), (9, 1, 2), (6, 2, 3), (7, 3, 4)])).fences_increasing);
}

#[test]
fn leases_of_different_names_may_overlap() {
    let mut past_leases = past_leases(&[(2, 0, 20), (1, 10, 30)]);
    past_leases[1].name = "b";
    assert!(Findings::of(&["a", "b"], &past_leases).violations.is_empty());
}
