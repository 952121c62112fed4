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
fn a_page_is_not_without_any_fault_nor_without_an_overlap_elsewhere() {
    let acts = || [Bound::Within, Bound::Beyond].into_iter().flat_map(kinds).map(|kind| kind.act);
    let all = Findings {
        faults: acts().map(|act| (act, 1)).collect(),
        kills: Memory::ALL.map(|memory| (memory, 1)).into(),
        ..Findings::default()
    };
    let overlaps = |overlaps| Findings { overlaps, ..Findings::default() };
    let page = |own: &Findings, trusting, foreign| {
        gaps(&[
            row(Subject::Quorlock, Bound::Beyond, own.clone()),
            row(Subject::Trusting, Bound::Within, overlaps(trusting)),
            row(Subject::NodeRedlock, Bound::Within, overlaps(foreign)),
        ])
    };
    assert_eq!(page(&all, 0, 1), Vec::<String>::new());
    assert_eq!(page(&all, 1, 0), ["nothing was found in a library that is not ours: let it run longer"]);
    let mut some = all.clone();
    some.faults.remove(&Act::Hold);
    some.kills.remove(&Memory::AofAlways);
    assert_eq!(
        page(&some, 0, 1),
        [
            "hold was never done to quorlock: let it run longer",
            "no server with persistence aof-always was killed: let it run longer",
        ]
    );
    assert_eq!(page(&Findings::default(), 0, 1).len(), acts().count() + Memory::ALL.len());
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
