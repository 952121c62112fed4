use super::*;

/// Leases of one name given as (fence, from, until), in milliseconds.
fn tenures(leases: &[(u64, u64, u64)]) -> Vec<Tenure> {
    let tenure = |&(fence, from, until): &(u64, u64, u64)| Tenure {
        name: "a",
        worker: fence as usize - 1,
        fence,
        from: Duration::from_millis(from),
        until: Duration::from_millis(until),
        is_lost: false,
    };
    leases.iter().map(tenure).collect()
}

#[test]
fn leases_one_after_the_other_are_good_in_any_order_of_reports() {
    let mut tenures = tenures(&[(2, 10, 20), (1, 0, 10), (7, 25, 30)]);
    tenures[2].is_lost = true;
    let found = Findings::of(&["a", "b"], &tenures);
    assert!(found.violations.is_empty());
    assert_eq!((found.grants, found.losses, found.overlaps, found.fences_increasing), (3, 1, 0, true));
    assert_eq!((found.names[0].first_fence, found.names[0].last_fence), (Some(1), Some(7)));
    assert_eq!((found.names[1].grants, found.names[1].first_fence), (0, None));
    assert_eq!(found.to_string(), "3 grants, 1 loss, 0 overlaps, fences increasing");
}

#[test]
fn two_holders_are_found() {
    let found = Findings::of(&["a"], &tenures(&[(1, 0, 11), (2, 10, 20)]));
    assert_eq!((found.overlaps, found.fences_increasing), (1, true));
    assert!(found.violations[0].starts_with("two holders for 1ms: w1 with a from 0.000000s"), "{found:?}");
}

#[test]
fn a_long_lease_overlaps_with_each_that_it_covers() {
    assert_eq!(Findings::of(&["a"], &tenures(&[(1, 0, 100), (2, 10, 20), (3, 30, 40)])).overlaps, 2);
}

#[test]
fn fences_that_do_not_grow_are_found() {
    for leases in [[(2, 0, 10), (2, 10, 20)], [(2, 0, 10), (1, 10, 20)]] {
        let found = Findings::of(&["a"], &tenures(&leases));
        assert_eq!((found.violations.len(), found.overlaps, found.fences_increasing), (1, 0, false));
    }
    // Lower than one long ago, although higher than the last.
    assert!(!Findings::of(&["a"], &tenures(&[(5, 0, 1), (9, 1, 2), (6, 2, 3), (7, 3, 4)])).fences_increasing);
}

#[test]
fn names_are_independent() {
    let mut tenures = tenures(&[(2, 0, 20), (1, 10, 30)]);
    tenures[1].name = "b";
    assert!(Findings::of(&["a", "b"], &tenures).violations.is_empty());
}
