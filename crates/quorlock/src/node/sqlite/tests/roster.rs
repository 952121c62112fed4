//! The membership of a node is stored in the file, and belongs to one boot.

use quorlock_core::node::roster::{Membership, RosterCommand};

use super::*;
use crate::node::roster_history::RosterHistory;

fn execute(session: &mut RequestReply, command: RosterCommand) -> Option<Membership> {
    let (answer, _) = wait(session.roster_command(command)).unwrap();
    assert!(answer.accepted);
    answer.membership
}

/// Returns a file with a node that votes by its roster.
fn founded(history: &mut RosterHistory) -> (TestFile, Membership) {
    let test_file = TestFile::new();
    let mut session = test_file.open("boot").unwrap();
    let [identify, install, claim] = history.founding(Identity::of_run("boot"), 0, false);
    execute(&mut session, identify);
    execute(&mut session, install);
    (test_file, execute(&mut session, claim).unwrap())
}

#[test]
fn a_membership_survives_reopening_and_votes_only_in_its_boot() {
    let mut history = RosterHistory::default();
    let (test_file, membership) = founded(&mut history);
    let mut session = test_file.open("boot").unwrap();
    assert_eq!(execute(&mut session, RosterCommand::Read), Some(membership.clone()));
    let floor = membership.floor.unwrap();
    assert!(floor.get() > START_MICROS + HOUR_MILLIS * 999, "the floor {floor} is below the reserve");
    let life = Some(Life { epoch: membership.epoch(), floor });
    let ask = |session: &mut RequestReply| vote(&wait(session.send(life, vec![message("a", acquire(1))])).unwrap()[0]);
    granted(&ask(&mut session));

    let mut later = test_file.open("later").unwrap();
    assert_eq!(ask(&mut later), Vote::Refusal(Refusal::WrongEpoch));
    assert_eq!(test_file.count("record"), 1);
    let next = execute(&mut later, history.identify(Identity::of_run("later"))).unwrap();
    assert!(next.member != membership.member && !next.is_voting());
    assert_eq!(test_file.count("record"), 0, "times of another boot are meaningless");
}

#[test]
fn a_damaged_membership_causes_an_error() {
    for damage in [
        "replace(membership, 'boot', char(7))",
        "replace(membership, '{name}', x'ff')",
        "substr(membership, 2)",
        "membership || char(10)",
        "''",
        "x'00'",
    ] {
        let (test_file, _) = founded(&mut RosterHistory::default());
        let other = test_file.connect();
        let is_refused = other.execute(&format!("UPDATE node SET membership = {damage}"), []).is_err();
        let opened = test_file.open("boot");
        let is_error = matches!(&opened, Err(Trouble::Unfit(why)) if why.contains("membership"));
        assert!(is_refused || is_error, "{damage}");
    }
}
