//! Formats a measured case as a Markdown table.

use std::fmt::Write;

use super::{BarResult, CaseResult, Summary};
use crate::case::Limit;

/// The section of a case: the description, the figures of all contenders, and the absent contenders.
pub(crate) fn case_as_markdown(case: &CaseResult) -> String {
    let mut text = format!("### {}\n\n", case.title);
    if !case.about.is_empty() {
        let _ = writeln!(text, "{}\n", case.about);
    }
    let figures = figures(case);
    let first = case.contenders.first().map_or("", |first| &first.name);
    let _ = write!(text, "| `{}` |", case.name);
    for figure in &figures {
        let _ = write!(text, " {} |", label(figure));
    }
    let has_ratios = case.contenders.len() > 1;
    if has_ratios {
        let _ = write!(text, " relative to {first} | spread |");
    }
    let columns = 1 + figures.len() + if has_ratios { 2 } else { 0 };
    let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
    for contender in &case.contenders {
        let _ = write!(text, "| {} |", contender.name);
        for figure in &figures {
            let _ = write!(text, " {} |", contender.median(figure).map(number).unwrap_or_default());
        }
        if has_ratios {
            let _ = match contender.ratio {
                Some(Summary { median, low, high }) => {
                    write!(text, " {} | {} to {} |", number(median), number(low), number(high))
                }
                None => write!(text, " | |"),
            };
        }
        text.push('\n');
    }
    if case.machine.load > case.machine.cores as f64 {
        let _ = writeln!(text, "\nThe machine was busy: load average {} before this case.", number(case.machine.load));
    }
    for absent in &case.absent {
        let _ = writeln!(text, "\nNot measured: {}: {}.", absent.name, absent.why);
    }
    text
}

/// A row of the table of bars.
pub(super) fn bar_as_row(case: &CaseResult, bar: &BarResult) -> String {
    let limit = match bar.limit {
        Limit::AtLeast(limit) => format!("at least {}", number(limit)),
        Limit::AtMost(limit) => format!("at most {}", number(limit)),
    };
    let Summary { median, low, high } = bar.value;
    let excess = match bar.limit {
        Limit::AtLeast(limit) => 1.0 - median / limit,
        Limit::AtMost(limit) => median / limit - 1.0,
    };
    let met = match excess {
        _ if bar.met => "yes".into(),
        ..0.01 => "**no**, by less than 1 %".into(),
        _ => format!("**no**, by {:.0} %", excess * 100.0),
    };
    format!(
        "| {} | {} | {limit} | {} | {} to {} | {met} |\n",
        case.title,
        bar.what,
        number(median),
        number(low),
        number(high)
    )
}

/// The names of all figures of a case. The figure by which contenders are compared comes first.
fn figures(case: &CaseResult) -> Vec<String> {
    let mut figures = vec![case.figure.clone()];
    for figure in case.contenders.iter().flat_map(|contender| contender.figures.keys()) {
        if !figures.contains(figure) {
            figures.push(figure.clone());
        }
    }
    figures
}

/// The text for a figure with its unit: `p50 (us)` for `p50_us`.
pub(super) fn label(figure: &str) -> String {
    let unit = figure.rsplit_once('_').map(|(_, unit)| unit).filter(|unit| ["us", "ms"].contains(unit));
    without_unit(figure) + &unit.map(|unit| format!(" ({unit})")).unwrap_or_default()
}

/// The text for a ratio of figures, which has no unit: `p50` for `p50_us`.
pub(super) fn without_unit(figure: &str) -> String {
    let name = figure.strip_suffix("_us").or_else(|| figure.strip_suffix("_ms"));
    name.unwrap_or(figure).replace('_', " ")
}

/// Formats with three digits, or with all digits before the decimal point.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1_000.0 => grouped(value.round() as i64),
        middle if middle >= 100.0 => format!("{value:.0}"),
        small if small >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats with separators: `1,234,567`.
fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.0, 0.934, 12.345, 456.7, 1_234_567.0, -1_000.0].map(number);
        assert_eq!(shown, ["0.00", "0.93", "12.3", "457", "1,234,567", "-1,000"]);
    }

    #[test]
    fn figures_are_named_with_their_units() {
        assert_eq!(
            ["p50_us", "cycles_per_second", "messages"].map(label),
            ["p50 (us)", "cycles per second", "messages"]
        );
    }
}
