use super::*;

const LATER: Duration = LINGER.saturating_mul(10);

#[test]
fn a_caller_that_asks_now_and_then_keeps_nobody_awake() {
    let habit = Habit::default();
    for at in 1..10 {
        habit.heard(LATER * at);
        assert!(!habit.answered(LATER * at));
    }
}

#[test]
fn a_caller_that_asks_right_behind_its_answer_is_stayed_awake_for() {
    let habit = Habit::default();
    habit.heard(LATER);
    assert!(!habit.answered(LATER), "it has asked once");
    habit.heard(LATER + LINGER);
    assert!(habit.answered(LATER + LINGER));
    habit.heard(LATER + LINGER * 2 + Duration::from_nanos(1));
    assert!(!habit.answered(LATER * 2), "it has become slow");
}

#[test]
fn many_that_ask_now_and_then_are_not_one_that_asks_at_once() {
    let (habits, pause) = ([(); 100].map(|()| Habit::default()), LINGER / 10);
    let turns = (1..10).flat_map(|_| &habits).zip(1_000..);
    assert!(turns.into_iter().all(|(habit, at)| {
        habit.heard(pause * at);
        !habit.answered(pause * at)
    }));
}

#[test]
fn one_core_is_left_to_others() {
    let spare = Spare::beside_one_of(3);
    let first = spare.take();
    let second = spare.take();
    assert!(first.is_some() && second.is_some());
    assert!(spare.take().is_none());
    drop(first);
    assert!(spare.take().is_some());
    assert!(Spare::beside_one_of(1).take().is_none(), "with one core, whoever asks needs it");
    assert!(Spare::none().take().is_none());
}

#[tokio::test]
async fn whoever_stays_awake_goes_to_sleep_again() {
    let spare = Spare::beside_one_of(2);
    let linger = Linger::new(Arc::clone(&spare));
    let staying = tokio::spawn(Arc::clone(&linger).stay());
    let habit = Habit { is_quick: true.into(), ..Habit::default() };
    linger.answered(&habit);
    assert!(linger.is_awake.load(Ordering::Relaxed));
    while linger.is_awake.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    assert!(spare.take().is_some(), "leave was given back");
    staying.abort();
}
