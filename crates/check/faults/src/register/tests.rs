use super::*;

fn read(cells: &mut Cells, fence: Option<u64>) -> Versions {
    cells.apply(&Request { client: 0, turn: 0, name: String::new(), fence, write: None }).0
}

fn write_back(cells: &mut Cells, fence: Option<u64>, known: Versions) -> (Option<Outcome>, Outcome) {
    let request = Request { client: 0, turn: 0, name: String::new(), fence, write: Some(known) };
    let (_, fenced, bare) = cells.apply(&request);
    (fenced, bare)
}

#[test]
fn consecutive_turns_overwrite_nothing() {
    let mut cells = Cells::default();
    for fence in 1..4 {
        let known = read(&mut cells, Some(fence));
        assert_eq!(write_back(&mut cells, Some(fence), known), (Some(Outcome::Done), Outcome::Done));
    }
    assert_eq!(read(&mut cells, None), Versions { bare: 3, fenced: None });
}

#[test]
fn a_late_write_overwrites_only_the_bare_cell() {
    let mut cells = Cells::default();
    let (late_accesses, next) = (read(&mut cells, Some(1)), read(&mut cells, Some(2)));
    assert_eq!(write_back(&mut cells, Some(2), next), (Some(Outcome::Done), Outcome::Done));
    assert_eq!(write_back(&mut cells, Some(1), late_accesses), (Some(Outcome::Refused), Outcome::Overwrote));
}

#[test]
fn a_shared_fence_lets_the_fenced_cell_be_overwritten() {
    let mut cells = Cells::default();
    let (one, other) = (read(&mut cells, Some(1)), read(&mut cells, Some(1)));
    assert_eq!(write_back(&mut cells, Some(1), one), (Some(Outcome::Done), Outcome::Done));
    assert_eq!(write_back(&mut cells, Some(1), other), (Some(Outcome::Overwrote), Outcome::Overwrote));
}

#[test]
fn without_a_fence_concurrent_turns_overwrite_the_bare_cell() {
    let mut cells = Cells::default();
    let (one, other) = (read(&mut cells, None), read(&mut cells, None));
    assert_eq!(write_back(&mut cells, None, one), (None, Outcome::Done));
    assert_eq!(write_back(&mut cells, None, other), (None, Outcome::Overwrote));
}
