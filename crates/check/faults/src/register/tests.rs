use super::*;

fn read(registers: &mut Registers, fence: Option<u64>) -> Versions {
    registers.apply(&Request { client: 0, turn: 0, name: String::new(), fence, write: None }).0
}

fn write_back(
    registers: &mut Registers,
    fence: Option<u64>,
    versions_read: Versions,
) -> (Option<AccessOutcome>, AccessOutcome) {
    let request = Request { client: 0, turn: 0, name: String::new(), fence, write: Some(versions_read) };
    let (_, fenced, bare) = registers.apply(&request);
    (fenced, bare)
}

#[test]
fn consecutive_turns_overwrite_nothing() {
    let mut registers = Registers::default();
    for fence in 1..4 {
        let versions = read(&mut registers, Some(fence));
        assert_eq!(write_back(&mut registers, Some(fence), versions), (Some(AccessOutcome::Done), AccessOutcome::Done));
    }
    assert_eq!(read(&mut registers, None), Versions { bare: 3, fenced: None });
}

#[test]
fn a_write_with_an_old_fence_overwrites_only_the_bare_register() {
    let mut registers = Registers::default();
    let (old, new) = (read(&mut registers, Some(1)), read(&mut registers, Some(2)));
    assert_eq!(write_back(&mut registers, Some(2), new), (Some(AccessOutcome::Done), AccessOutcome::Done));
    assert_eq!(write_back(&mut registers, Some(1), old), (Some(AccessOutcome::Refused), AccessOutcome::Overwrote));
}

#[test]
fn two_clients_with_the_same_fence_overwrite_the_fenced_register() {
    let mut registers = Registers::default();
    let (first, second) = (read(&mut registers, Some(1)), read(&mut registers, Some(1)));
    assert_eq!(write_back(&mut registers, Some(1), first), (Some(AccessOutcome::Done), AccessOutcome::Done));
    assert_eq!(write_back(&mut registers, Some(1), second), (Some(AccessOutcome::Overwrote), AccessOutcome::Overwrote));
}

#[test]
fn two_clients_without_a_fence_overwrite_the_bare_register() {
    let mut registers = Registers::default();
    let (first, second) = (read(&mut registers, None), read(&mut registers, None));
    assert_eq!(write_back(&mut registers, None, first), (None, AccessOutcome::Done));
    assert_eq!(write_back(&mut registers, None, second), (None, AccessOutcome::Overwrote));
}
