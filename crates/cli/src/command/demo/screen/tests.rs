use super::super::plan::Deed;
use super::super::world::{News, NodeLook};
use super::*;

const TITLES: Titles = Titles { seed: 42, length: Duration::from_secs(30) };

fn text(rows: &[Row]) -> Vec<String> {
    rows.iter().map(Row::text).collect()
}

/// Two hold, four wait, and three nodes have their troubles.
fn scene() -> Scene {
    let mut scene = Scene::new();
    let at = Duration::from_millis(1_250);
    let votes = |first: &str| Some([Some(first.to_owned()), None, Some("w12".to_owned())]);
    let quarantined = NodeLook { trouble: Some(Silence::Quarantined(QUARANTINE / 2)), votes: None };
    let voting = NodeLook { trouble: None, votes: votes("w3") };
    for news in [
        News::Granted { worker: 2, name: 0, fence: 1_794_800_400_576_404, at },
        News::Granted { worker: 11, name: 2, fence: 1_794_800_400_576_405, at },
        News::Holds { name: 0, left: TTL / 4 },
        News::Waits { worker: 6, name: 0, place: Some(2) },
        News::Waits { worker: 8, name: 0, place: Some(1) },
        News::Looked(vec![voting.clone(), quarantined, voting.clone(), voting.clone(), voting]),
        News::Done(Deed { at, node: 2, act: Act::Freeze }),
        News::Done(Deed { at, node: 3, act: Act::CutOff }),
    ] {
        scene.take(news, at);
    }
    scene
}

#[test]
fn the_picture_fills_the_terminal_and_no_more() {
    for (width, height) in [(80, 24), (132, 50), (60, 20)] {
        let rows = picture(&scene(), TITLES, Duration::from_secs(2), (width, height));
        assert_eq!(rows.len(), height);
        assert!(text(&rows).iter().all(|row| row.chars().count() == width), "{:#?}", text(&rows));
    }
    assert_eq!(text(&picture(&scene(), TITLES, Duration::ZERO, (40, 10))), ["the picture needs 80 x 24"]);
}

#[test]
fn the_picture_shows_who_holds_and_who_waits_and_how_the_nodes_are() {
    let rows = text(&picture(&scene(), TITLES, Duration::from_secs(2), (80, 24)));
    let has = |row: &str| assert!(rows.iter().any(|other| other.starts_with(row)), "no {row:?} in {rows:#?}");
    has("│ deploy         w3     1794800400576404       1  ██░░░░░░  w9 w7");
    has("│ report         ·      ·                      0  ░░░░░░░░   ");
    has("│ invoices/42    w12    1794800400576405       1");
    has("│ node 1   votes                     w3           ·            w12");
    has("│ node 2   quarantine ████░░░░ 1.6s  ·            ·            ·");
    has("│ node 3   frozen                    ·            ·            ·");
    has("│ node 4   cut off");
    has("│    1.2  no majority is left: nobody gets in");
    has(" ✓ 0 grants, 0 losses, 0 overlaps, fences increasing");
}
