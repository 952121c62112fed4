use super::*;
use crate::case::RATE;

struct UnmeasuredContender;

impl crate::case::Contender for UnmeasuredContender {
    fn turn(&mut self) -> Result<Figures, Failure> {
        Err("this contender is never measured".into())
    }
}

fn figures(rates: &[f64]) -> Vec<Figures> {
    rates.iter().map(|rate| Figures::from([(RATE.to_owned(), *rate)])).collect()
}

fn case(bars: Vec<Bar>) -> Case {
    let mut case = Case::new("cycle", "Cycles", RATE);
    case.add("floor", UnmeasuredContender);
    case.add("ours", UnmeasuredContender);
    case.bars = bars;
    case
}

#[test]
fn a_ratio_compares_figures_of_the_same_turn() {
    // The machine was ten times slower in the second turn, which must not change the ratio.
    let turns = [figures(&[100.0, 10.0, 100.0]), figures(&[90.0, 9.0, 80.0])];
    let measured = CaseResult::new(&case(Vec::new()), Machine::default(), &turns);
    assert_eq!(measured.contenders[1].ratio, Some(Summary { median: 0.9, low: 0.8, high: 0.9 }));
}

#[test]
fn a_bar_is_met_if_the_median_meets_it() {
    let bars = vec![
        Bar::ratio("ours", RATE, "floor", Limit::AtLeast(0.9)),
        Bar::ratio("ours", RATE, "floor", Limit::AtLeast(0.95)),
        Bar::figure("ours", RATE, Limit::AtMost(90.0)),
        Bar::ratio("ours", RATE, "nobody", Limit::AtLeast(0.0)),
    ];
    let turns = [figures(&[100.0, 100.0, 100.0]), figures(&[90.0, 100.0, 10.0])];
    let measured = CaseResult::new(&case(bars), Machine::default(), &turns);
    let met: Vec<bool> = measured.bars.iter().map(|bar| bar.met).collect();
    assert_eq!(met, [true, false, true]);
}

#[test]
fn a_repeated_case_replaces_the_older_one() {
    let mut report = Report::default();
    for rate in [1.0, 2.0] {
        report.add(CaseResult::new(&case(Vec::new()), Machine::default(), &[figures(&[rate]), figures(&[rate])]));
    }
    assert_eq!(report.cases.len(), 1);
    assert_eq!(report.cases[0].contenders[0].median(RATE), Some(2.0));
}

#[test]
fn cases_keep_the_order_of_the_plan() {
    let mut report = Report::default();
    for name in ["b", "gone", "a"] {
        let mut case = case(Vec::new());
        case.name = name.into();
        report.add(CaseResult::new(&case, Machine::default(), &[figures(&[1.0]), figures(&[1.0])]));
    }
    report.put_in_order(&["a".to_owned(), "b".to_owned()]);
    let names: Vec<&str> = report.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}
