use std::time::Duration;

use super::*;

fn output() -> Output {
    Output::new(false, false, false, "never")
}

/// Returns a scene in which two workers hold a lock, two workers wait, and three nodes cannot vote.
fn scene() -> Scene {
    let mut scene = Scene::new(42, Duration::from_secs(30));
    scene.record_grant(2, 0, 1_794_800_400_576_404);
    scene.record_grant(11, 2, 1_794_800_400_576_405);
    scene.names[0].left = TTL / 4;
    scene.record_wait(6, 0, Some(2));
    scene.record_wait(8, 0, Some(1));
    let voting = (None, [Some("w3".to_owned()), None, Some("w12".to_owned())]);
    let quarantined = (Some(Silence::Quarantined(QUARANTINE / 2)), Default::default());
    scene.record_observation(vec![voting.clone(), quarantined, voting.clone(), voting.clone(), voting]);
    for (node, fault) in [(2, Fault::Freeze), (3, Fault::Cut)] {
        scene.record_fault(node, fault, true);
    }
    scene
}

#[test]
fn the_picture_fills_the_terminal_exactly() {
    for (width, height) in [(80, 24), (132, 50), (60, 20)] {
        let rows = picture(&scene(), output(), (width, height));
        assert_eq!(rows.len(), height);
        assert!(rows.iter().all(|row| row.chars().count() == width), "{rows:#?}");
    }
    assert_eq!(picture(&scene(), output(), (40, 10)), ["the picture needs 80 x 24"]);
}

#[test]
fn colours_do_not_widen_the_picture() {
    let rows = picture(&scene(), Output::new(false, false, false, "always"), (80, 24));
    assert!(rows.iter().all(|row| width_painted(row) == 80), "{rows:#?}");
}

#[test]
fn the_picture_shows_holders_waiters_and_the_state_of_nodes() {
    let rows = picture(&scene(), output(), (80, 24));
    let assert_row = |start: &str| assert!(rows.iter().any(|row| row.starts_with(start)), "no {start:?} in {rows:#?}");
    assert_row("│ deploy        w3      1794800400576404       1  ██░░░░░░  w9 w7");
    assert_row("│ report        ·       ·                      0  ░░░░░░░░   ");
    assert_row("│ invoices/42   w12     1794800400576405       1");
    assert_row("│ node 1   votes                     w3           ·            w12");
    assert_row("│ node 2   quarantine ████░░░░ 1.6s  ·            ·            ·");
    assert_row("│ node 3   frozen                    ·            ·            ·");
    assert_row("│ node 4   cut off");
    assert_row("│    0.0  no majority is left: nobody can acquire");
    assert_row(" ✓ 0 grants, 0 losses, 0 overlaps, fences increasing");
}
