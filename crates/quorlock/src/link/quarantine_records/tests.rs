use std::time::Duration;

use super::*;

const EPOCH: Epoch = Epoch(0x5eed);

fn records() -> (tempfile::TempDir, Records) {
    let folder = tempfile::tempdir().unwrap();
    let records = Records::new(Some(folder.path()));
    (folder, records)
}

/// Returns a report that arrived the duration `passed` ago.
fn report_ago(elapsed_micros: u64, passed: Duration) -> ElapsedReport {
    let (boot, raw) = Stopwatch::start().started();
    let back = passed.as_nanos() as u64;
    ElapsedReport { elapsed_micros, since: Stopwatch::resume(boot - back, raw - back).unwrap() }
}

fn recorded(records: &Records) -> String {
    fs::read_to_string(records.path(EPOCH).unwrap()).unwrap()
}

#[test]
fn a_later_process_claims_the_time_since_the_report_to_the_first_process() {
    let (_folder, records) = records();
    let first = report_ago(7, Duration::from_secs(1));
    assert!(records.resume(EPOCH, first).is_none(), "nothing was recorded before");
    let later = records.resume(EPOCH, ElapsedReport::new(20)).expect("the first report is recorded");
    assert!(later.claim() >= 1_000_007);
    assert_eq!(later.since.started(), first.since.started());
    assert!(records.resume(Epoch(1), ElapsedReport::new(0)).is_none(), "another life of the node's memory");
}

#[test]
fn a_report_that_is_higher_than_the_claim_of_the_record_replaces_the_record() {
    let (_folder, records) = records();
    records.resume(EPOCH, report_ago(0, Duration::from_millis(1)));
    let before = recorded(&records);
    assert!(records.resume(EPOCH, ElapsedReport::new(u64::MAX / 2)).is_none());
    assert_ne!(recorded(&records), before);
    assert!(records.resume(EPOCH, ElapsedReport::new(0)).is_some_and(|best| best.claim() >= u64::MAX / 2));
    records.remove(EPOCH);
    assert!(records.read(EPOCH).is_none());
}

#[test]
fn a_record_that_is_damaged_or_from_other_clocks_is_ignored() {
    let clocks = clock::identity().expect("tests run on Linux");
    let (boot, raw) = Stopwatch::start().started();
    let sound = report_ago(5, Duration::from_secs(1)).encode(EPOCH, &clocks);
    assert!(ElapsedReport::decode(&sound, EPOCH, &clocks).is_some());
    for cut in 0..sound.len() {
        assert!(ElapsedReport::decode(&sound[..cut], EPOCH, &clocks).is_none(), "cut to {:?}", &sound[..cut]);
    }
    for digit in sound.match_indices(|letter: char| letter.is_ascii_digit()).map(|(at, _)| at) {
        let other = if sound.as_bytes()[digit] == b'9' { "1" } else { "9" };
        let changed = format!("{}{other}{}", &sound[..digit], &sound[digit + 1..]);
        assert!(ElapsedReport::decode(&changed, EPOCH, &clocks).is_none(), "{changed}");
    }
    assert!(ElapsedReport::decode(&sound, Epoch(1), &clocks).is_none(), "the record is about another epoch");
    assert!(
        ElapsedReport::decode(&sound, EPOCH, &format!("{clocks}0")).is_none(),
        "the record is from another boot or time namespace"
    );
    let hour = 3_600_000_000_000;
    for (boot, raw) in [(boot + hour, raw), (boot, raw + hour)] {
        let text = format!("{TITLE}\nepoch {:032x}\nclocks {clocks}\nboot {boot}\nraw {raw}\nelapsed 5\n", EPOCH.0);
        let text = format!("{text}sum {:016x}\n", checksum(&text));
        assert!(ElapsedReport::decode(&text, EPOCH, &clocks).is_none(), "a clock went back");
    }
    for text in ["", "sum ", "sum \n", "\u{9501}sum 0", "sum 0000000000000000\nsum 0000000000000000\n"] {
        assert!(ElapsedReport::decode(text, EPOCH, &clocks).is_none(), "{text:?}");
    }
}

#[test]
fn a_claim_uses_the_slower_of_two_clocks() {
    let (boot, raw) = Stopwatch::start().started();
    let second = 1_000_000_000;
    for (boot, raw) in [(boot - 100 * second, raw - second), (boot - second, raw - 100 * second)] {
        let claim = ElapsedReport { elapsed_micros: 0, since: Stopwatch::resume(boot, raw).unwrap() }.claim();
        assert!((1_000_000..100_000_000).contains(&claim), "{claim}");
    }
}

#[test]
fn a_folder_keeps_the_newest_records() {
    let (folder, records) = records();
    for epoch in 0..RECORDS_MAX as u128 + 5 {
        records.resume(Epoch(epoch), ElapsedReport::new(0));
    }
    let kept = fs::read_dir(folder.path().join("quarantine")).unwrap().count();
    assert!(kept <= RECORDS_MAX, "{kept}");
    assert!(records.read(Epoch(RECORDS_MAX as u128 + 4)).is_some(), "the newest record was deleted");
}

#[test]
fn an_unusable_folder_is_reported_and_keeps_no_records() {
    let (folder, records) = records();
    let path = folder.path().join("quarantine");
    fs::write(&path, "a file").unwrap();
    let client = records.clone();
    assert_eq!(client.trouble(), None, "the folder was not needed yet");
    for _ in 0..2 {
        assert!(records.resume(EPOCH, ElapsedReport::new(0)).is_none());
        let trouble = client.trouble().unwrap();
        assert!(trouble.starts_with(&format!("cannot use {}: ", path.display())), "{trouble}");
    }
    fs::remove_file(&path).unwrap();
    assert!(records.resume(EPOCH, ElapsedReport::new(0)).is_none());
    assert_eq!(client.trouble(), None, "the folder can be used again");
    let without_folder = Records::new(None);
    assert!(without_folder.resume(EPOCH, ElapsedReport::new(0)).is_none() && without_folder.trouble().is_none());
}
