use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::fuzzing;

const MEMBERSHIP: &str = "run
a:7
00000000000000000000000000000001
00000000000000000000000000000009
1
3 0000000000000005000000000000000a
2 66000000 5
000000000000000000000000000000c1 2 60000 10000000 0 60000\t\
00000000000000000000000000000001 00000000000000000000000000000009\tlocks of \u{9501}/{name}\t\
00000000000000000000000000000001 2 host:6379/0\t00000000000000000000000000000002 1 [::1]:6379/0
0000000000000005000000000000000a 000000000000000000000000000000c1 3 60000 10000000 1 60000\t\t{name}\t\
00000000000000000000000000000001 3 host:6379/0";

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        select(vec!["", "host:6379/0", "[::1]:1/15", "/srv/with spaces/\u{fc}.db"]).prop_map(Arc::from),
        "\\PC{0,8}".prop_filter("control characters", |text| !text.contains(char::is_control)).prop_map(Arc::from),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..12_u64, any::<u64>()]
}

fn id() -> impl Strategy<Value = MemberId> {
    prop_oneof![(0..4_u128).prop_map(MemberId), any::<u128>().prop_map(MemberId)]
}

fn ballot() -> impl Strategy<Value = Ballot> {
    (number(), number()).prop_map(|(round, bits)| Ballot { round, bits })
}

fn roster() -> impl Strategy<Value = Roster> {
    let member = (id(), text(), number()).prop_map(|(id, address, since)| Member { id, address, since });
    let settings = (number(), number(), text(), any::<bool>()).prop_map(
        |(max_ttl_millis, max_skew_micros, key_template, trusts_restarts)| Settings {
            max_ttl_millis,
            max_skew_micros,
            key_template,
            trusts_restarts,
        },
    );
    (any::<u128>(), 1..=u64::MAX, vec(member, 1..5), vec(id(), 0..4), settings, number()).prop_map(
        |(cluster, generation, members, before, settings, longest_ttl_millis)| Roster {
            cluster: ClusterId(cluster),
            generation,
            members,
            before,
            settings,
            longest_ttl_millis,
        },
    )
}

fn membership() -> impl Strategy<Value = Membership> {
    let promise = (number(), ballot()).prop_map(|(generation, ballot)| Promise { generation, ballot });
    let proposal = (ballot(), roster()).prop_map(|(ballot, roster)| Proposal { ballot, roster: Arc::new(roster) });
    let quarantine = (number(), number(), number()).prop_map(|(since, micros, elapsed_micros)| Quarantine {
        since,
        micros,
        elapsed_micros,
    });
    let ids = (option::of(id()), option::of(id()), any::<u64>(), any::<bool>());
    let decided = (option::of(roster().prop_map(Arc::new)), option::of(promise), option::of(proposal));
    let floor = option::of(number().prop_map(Fence::new));
    ("[!-~]{0,8}", "[!-~]{0,8}", ids, decided, floor, option::of(quarantine)).prop_map(
        |(run, promotion, (member, former, life, is_settled), (roster, promised, accepted), floor, quarantine)| {
            Membership {
                identity: Identity { run, promotion },
                member,
                former,
                life: Life(life),
                roster,
                is_settled,
                promised,
                accepted,
                floor,
                quarantine,
            }
        },
    )
}

proptest! {
    #[test]
    fn a_membership_is_read_as_it_was_written(membership in membership()) {
        let read = parse_membership(&write_epoch(&membership), &write_membership(&membership));
        prop_assert_eq!(read, Some(membership));
    }

    #[test]
    fn a_changed_text_is_rejected_or_is_exactly_what_would_be_written(
        membership in membership(),
        changes in vec((any::<Index>(), 0..3_usize, "[ \t\n0-9a-f+]{0,2}|\\PC|\u{0}"), 1..4),
    ) {
        let roster = membership.roster.as_deref().map(write_roster);
        for whole in [Some(format!("{}\n{}", write_epoch(&membership), write_membership(&membership))), roster] {
            let mut text: Vec<char> = whole.unwrap_or_default().chars().collect();
            for (at, removed, added) in &changes {
                let at = at.index(text.len() + 1);
                text.splice(at..(at + removed).min(text.len()), added.chars());
            }
            fuzzing::membership(text.into_iter().collect::<String>().as_bytes());
        }
    }
}

#[test]
fn the_text_of_a_membership_stays_as_documented() {
    let epoch_text = "000000000000000700000000000000021 77";
    assert_eq!(parse_membership(epoch_text, MEMBERSHIP), None, "33 digits");
    let epoch_text = "00000000000000070000000000000002 77";
    let membership = parse_membership(epoch_text, MEMBERSHIP).unwrap();
    let roster = membership.roster.as_ref().unwrap();
    assert_eq!((membership.life, membership.generation(), membership.floor), (Life(7), 2, Some(Fence::new(77))));
    assert_eq!(
        (&*roster.settings.key_template, &*roster.members[1].address),
        ("locks of \u{9501}/{name}", "[::1]:6379/0")
    );
    assert_eq!((write_epoch(&membership), write_membership(&membership)), (epoch_text.into(), MEMBERSHIP.into()));
}

#[test]
fn a_text_that_would_not_be_written_is_rejected() {
    let epoch_text = "00000000000000070000000000000002 77";
    assert!(parse_membership(epoch_text, MEMBERSHIP).is_some());
    for epoch_text in [
        "",
        "00000000000000070000000000000003 77",
        "00000000000000070000000000000002 077",
        "00000000000000070000000000000002 ",
        "00000000000000070000000000000002 9007199254740992",
    ] {
        assert_eq!(parse_membership(epoch_text, MEMBERSHIP), None, "{epoch_text}");
    }
    for (valid, invalid) in [
        ("run", "r\u{7}n"),
        ("\n1\n", "\n2\n"),
        ("\n1\n", "\n\n"),
        (" 60000 1", " 060000 1"),
        (" 60000 1", " +60000 1"),
        ("c1 2", "C1 2"),
        ("c1 2", "c1 0"),
        ("host", "h\u{85}st"),
        ("66000000 5", "66000000"),
        ("0000000000000005000000000000000a\n2", "5 a\n2"),
        ("1 60000\t\t{name}\t00000000000000000000000000000001 3 host:6379/0", "1 60000\t\t{name}"),
    ] {
        assert!(MEMBERSHIP.contains(valid), "{valid:?}");
        assert_eq!(parse_membership(epoch_text, &MEMBERSHIP.replacen(valid, invalid, 1)), None, "{invalid:?}");
    }
}
