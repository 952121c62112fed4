use super::*;

fn row(subject: Subject, series: Series, findings: Findings) -> Row {
    let mut row = Row::new(subject, series);
    row.add(Duration::from_secs(20), findings);
    row
}

#[test]
fn each_control_reports_its_findings() {
    let findings =
        |grants, overlaps, bare_overwrites| Findings { grants, overlaps, bare_overwrites, ..Findings::default() };
    let rows = [
        row(Subject::Quorlock, Series::Within, findings(9, 0, 0)),
        row(Subject::Trusting, Series::Within, findings(0, 0, 0)),
        row(Subject::Rslock, Series::Within, findings(5, 0, 0)),
        row(Subject::Rslock, Series::Beyond, findings(6, 1, 2)),
        row(Subject::NodeRedlock, Series::Within, findings(7, 0, 0)),
    ];
    assert_eq!(
        control_findings(&rows),
        [
            "trusting was granted no lease: it shows nothing",
            "rslock: 1 overlaps and 2 overwrites in the bare register, in 11 leases",
            "node-redlock shows nothing: no overlap and no overwrite in the bare register, in 7 leases",
        ]
    );
}

#[test]
fn a_page_needs_every_fault_every_series_and_an_overlap_in_another_library() {
    let kinds =
        || [Assumptions::Kept, Assumptions::Broken].into_iter().flat_map(templates).map(|template| template.kind);
    let all = Findings {
        faults: kinds().map(|kind| (kind, 1)).collect(),
        killed_servers: Persistence::ALL.map(|persistence| (persistence, 1)).into(),
        ..Findings::default()
    };
    let overlaps = |overlaps| Findings { overlaps, ..Findings::default() };
    let rows_with = |of_quorlock: &Findings, trusting, foreign| {
        let findings_of = |series| if series == Series::Beyond { of_quorlock.clone() } else { Findings::default() };
        let mut rows: Vec<Row> = Series::ALL.map(|series| row(Subject::Quorlock, series, findings_of(series))).into();
        rows.push(row(Subject::Trusting, Series::Within, overlaps(trusting)));
        rows.push(row(Subject::NodeRedlock, Series::Within, overlaps(foreign)));
        rows
    };
    let mut rows = rows_with(&all, 0, 1);
    assert_eq!(missing_results(&rows), Vec::<String>::new());
    rows.retain(|row| row.series != Series::Processes);
    assert_eq!(missing_results(&rows), ["no episode of processes was run: run for longer"]);
    let missing =
        |of_quorlock: &Findings, trusting, foreign| missing_results(&rows_with(of_quorlock, trusting, foreign));
    assert_eq!(missing(&all, 1, 0), ["no overlap was found in another library: run for longer"]);
    let mut incomplete = all.clone();
    incomplete.faults.remove(&FaultKind::HoldMessages);
    incomplete.killed_servers.remove(&Persistence::AofAlways);
    assert_eq!(
        missing(&incomplete, 0, 1),
        [
            "hold-messages was never injected into quorlock: run for longer",
            "no server with persistence aof-always was killed: run for longer",
        ]
    );
    assert_eq!(missing(&Findings::default(), 0, 1).len(), kinds().count() + Persistence::ALL.len());
}

#[test]
fn killed_servers_are_counted_by_persistence() {
    let faults = BTreeMap::from([(FaultKind::Kill, 3), (FaultKind::Wipe, 1)]);
    let killed_servers = BTreeMap::from([(Persistence::None, 1), (Persistence::AofEverysec, 2)]);
    let rows = [row(Subject::Quorlock, Series::Within, Findings { faults, killed_servers, ..Findings::default() })];
    let mut page = String::new();
    write_faults(&mut page, &rows);
    let lines: Vec<&str> = page.lines().filter(|line| line.contains("kill")).take(3).collect();
    assert_eq!(
        lines,
        [
            "| kill | 3 | 0 |",
            "| servers killed, persistence none | 1 | 0 |",
            "| servers killed, persistence aof-everysec | 2 | 0 |",
        ]
    );
}
