use super::*;

/// Turns of one name given as (fence, from, until), in milliseconds.
fn told(turns: &[(u64, u64, u64)]) -> Vec<Turn> {
    let turn = |&(fence, from, until): &(u64, u64, u64)| Turn {
        name: "a".into(),
        holder: format!("w{fence}"),
        fence,
        from: Duration::from_millis(from),
        until: Duration::from_millis(until),
        end: End::Released,
    };
    turns.iter().map(turn).collect()
}

#[test]
fn turns_one_after_the_other_are_good_in_whatever_order_they_are_told() {
    let mut turns = told(&[(2, 10, 20), (1, 0, 10), (7, 25, 30)]);
    turns[2].end = End::Lost;
    let found = Findings::of(&["a", "b"], &turns);
    assert!(found.is_good());
    assert_eq!((found.grants, found.losses, found.overlaps, found.fences_increasing), (3, 1, 0, true));
    assert_eq!((found.names[0].first_fence, found.names[0].last_fence), (Some(1), Some(7)));
    assert_eq!((found.names[1].grants, found.names[1].first_fence), (0, None));
}

#[test]
fn two_at_a_time_are_found() {
    let found = Findings::of(&["a"], &told(&[(1, 0, 11), (2, 10, 20)]));
    assert_eq!((found.is_good(), found.overlaps, found.fences_increasing), (false, 1, true));
    assert!(found.violations[0].starts_with("two at a time for 1ms: w1 with a from 0.000000"), "{found:?}");
}

#[test]
fn a_long_lease_that_covers_several_overlaps_with_each() {
    assert_eq!(Findings::of(&["a"], &told(&[(1, 0, 100), (2, 10, 20), (3, 30, 40)])).overlaps, 2);
}

#[test]
fn fences_that_do_not_grow_are_found() {
    for turns in [[(2, 0, 10), (2, 10, 20)], [(2, 0, 10), (1, 10, 20)]] {
        let found = Findings::of(&["a"], &told(&turns));
        assert_eq!((found.is_good(), found.overlaps, found.fences_increasing), (false, 0, false));
    }
    // Lower than one long ago, although higher than the last.
    assert!(!Findings::of(&["a"], &told(&[(5, 0, 1), (9, 1, 2), (6, 2, 3), (7, 3, 4)])).fences_increasing);
}

#[test]
fn different_names_have_nothing_to_do_with_each_other() {
    let mut turns = told(&[(2, 0, 20), (1, 10, 30)]);
    turns[1].name = "b".into();
    assert!(Findings::of(&["a", "b"], &turns).is_good());
}
