use super::*;

fn row(subject: Subject, bound: Bound, found: Findings) -> Row {
    let mut row = Row::new(subject, bound);
    row.add(Duration::from_secs(20), found);
    row
}

#[test]
fn each_control_says_what_it_shows() {
    let found = |grants, overlaps, bare_harmed| Findings { grants, overlaps, bare_harmed, ..Findings::default() };
    let rows = [
        row(Subject::Quorlock, Bound::Within, found(9, 0, 0)),
        row(Subject::Trusting, Bound::Within, found(0, 0, 0)),
        row(Subject::Rslock, Bound::Within, found(5, 0, 0)),
        row(Subject::Rslock, Bound::Beyond, found(6, 1, 2)),
        row(Subject::NodeRedlock, Bound::Within, found(7, 0, 0)),
    ];
    assert_eq!(
        shown(&rows),
        [
            "trusting had no lease: it shows nothing",
            "rslock shows what can be seen: 1 overlaps and 2 harmful writes to the bare register, in 11 leases",
            "node-redlock shows nothing: no overlap and no harm to the bare register, in 7 leases",
        ]
    );
}

#[test]
fn kills_are_told_by_what_the_servers_keep() {
    let faults = BTreeMap::from([(Act::Kill, 3), (Act::Wipe, 1)]);
    let kills = BTreeMap::from([(Memory::None, 1), (Memory::AofEverysec, 2)]);
    let rows = [row(Subject::Quorlock, Bound::Within, Findings { faults, kills, ..Findings::default() })];
    let mut page = String::new();
    super::faults(&mut page, &rows);
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("kill")).collect();
    assert_eq!(
        rows,
        [
            "| kill | 3 | 0 |",
            "| kill, of a server with persistence none | 1 | 0 |",
            "| kill, of a server with persistence aof-everysec | 2 | 0 |",
        ]
    );
}
