//! Writes docs/performance.md with its plots, and the table in the README.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::markdown::{bar_as_row, case_as_markdown, number};
use super::plot::{describe_growth, plot};
use super::{CaseResult, Report};
use crate::Failure;
use crate::case::{P50, RATE};

const BEGIN: &str = "<!-- ./x bench --write -->";
const END: &str = "<!-- / -->";

const INTRODUCTION: &str = "\
# Performance

For readers who want to know how fast quorlock is, compared with other lock libraries and with the limits of the servers. After reading
you know what each figure measures, which bars it meets, and how to repeat the run.

`./x bench --write` writes this page from `target/bench/report.json`, which has all measured figures. A run starts all servers on loopback
and fetches the other libraries from their registries. A case measures several *contenders*, which are the rows of its table. It measures
one contender after the other, and repeats this several times (A B C A B C), so that a busy moment of the machine affects all contenders.
The first repetition does not count.

**Compare only ratios.** A ratio compares two contenders in the same repetition. The column *relative to* shows the median of the ratios of
all repetitions, and *spread* the lowest and the highest. The median of the ratios may differ from the ratio of the medians in the other
columns. A *bar* is a limit that a ratio or a figure should meet.

- *ours* is this repository's library. Rows with *fenced* use the default lock. Rows without *fenced* use `.plain()`: no fences.
- *floor* is a minimal client with one thread, which sends recorded commands of *ours* and waits for a majority of the replies.
- *ceiling* is the highest rate of the servers, as redis-benchmark measures it with the same commands (best of `-P 16`, `64`, `256`).
  If *floor* is faster than *ceiling*, redis-benchmark was the bottleneck, and *ceiling* is not a limit of the servers.
- *bundled* means that redis-benchmark sends 16 requests in each command. With many callers, *ours* also sends similar requests as one
  command.
- A *cycle* is one acquire and one release. Every caller locks its own name. *failures* is the number of cycles that failed.
- *p50* is the median of the times of a contender's cycles or operations, and *p99* is the 99th percentile.
- The other libraries run with their defaults, each in its own process.
- `./x bench --against REV` compares this tree with another revision. Both builds take turns in one run.
- [Bars that are not met, and why](performance-missed-bars.md) shows for each missed bar where the time goes, and which changes were tried.
";

/// The pages and their paths.
pub(crate) struct Pages {
    root: PathBuf,
}

impl Pages {
    /// The pages of the repository that this program was built from.
    pub(crate) fn here() -> Self {
        Self { root: Path::new(env!("CARGO_MANIFEST_DIR")).join("../..") }
    }

    /// Writes all pages.
    pub(crate) fn write(&self, report: &Report) -> Result<(), Failure> {
        for (path, text) in self.texts(report)? {
            std::fs::write(path, text)?;
        }
        Ok(())
    }

    fn texts(&self, report: &Report) -> Result<Vec<(PathBuf, String)>, Failure> {
        let readme = self.root.join("README.md");
        let text = std::fs::read_to_string(&readme)?;
        let (before, rest) = text.split_once(BEGIN).ok_or("the README has no mark for the table")?;
        let (_, after) = rest.split_once(END).ok_or("the README has no mark for the end of the table")?;
        let text = format!("{before}{BEGIN}\n{}{END}{after}", readme_table(report));
        let mut texts = vec![(readme, text), (self.root.join("docs/performance.md"), page(report))];
        for case in &report.cases {
            texts.extend(plot(case).map(|svg| (self.root.join("docs").join(plot_file(case)), svg)));
        }
        Ok(texts)
    }
}

/// The whole page.
fn page(report: &Report) -> String {
    let mut text = INTRODUCTION.to_owned();
    if let Some(machine) = report.cases.last().map(|case| &case.machine) {
        let loads = report.cases.iter().map(|case| case.machine.load);
        let _ = writeln!(
            text,
            "\nMeasured on {} cores ({}), Linux {}, redis-server {}. Load averages before the cases: up to {}.",
            machine.cores,
            machine.processor,
            machine.kernel,
            machine.redis,
            number(loads.fold(0.0, f64::max))
        );
    }
    text.push_str("\n## Bars\n\n| case | figure | bar | measured | spread | met |\n|---|---|---|---|---|---|\n");
    for case in &report.cases {
        for bar in &case.bars {
            text.push_str(&bar_as_row(case, bar));
        }
    }
    text.push_str("\n## Cases\n");
    for case in &report.cases {
        let _ = write!(text, "\n{}", case_as_markdown(case));
        if case.axis.is_some() {
            let _ = writeln!(text, "\n{}\n\n![{}]({})", describe_growth(case), case.title, plot_file(case));
        }
    }
    text
}

fn plot_file(case: &CaseResult) -> String {
    format!("performance-{}.svg", case.name)
}

/// The rows of the README's table: contenders with their descriptions.
const README_ROWS: [(&str, &str); 5] = [
    ("ours, fenced", "quorlock (default: with fence)"),
    ("ours", "quorlock, `.plain()`: the Redlock algorithm, no fence"),
    ("rslock", "rslock (Rust, no fence)"),
    ("node redlock", "`@sesamecare-oss/redlock` (Node.js, no fence)"),
    ("floor, fenced", "a minimal client that sends the same fenced commands without batching"),
];

/// The README's table: cycles on five nodes, with one caller and with 512.
fn readme_table(report: &Report) -> String {
    let (Some(one), Some(many)) = (report.case("cycle-5-1"), report.case("cycle-5-512")) else {
        return String::new();
    };
    let median = |case: &CaseResult, name: &str, figure| {
        case.contender(name).and_then(|contender| contender.median(figure)).map(number)
    };
    let mut text = String::from("| | 1 caller, median | 512 callers, per second |\n|---|---|---|\n");
    for (name, description) in README_ROWS {
        let (p50, rate) = (median(one, name, P50), median(many, name, RATE));
        let p50 = p50.map(|micros| format!("{micros} us")).unwrap_or_default();
        let _ = writeln!(text, "| {description} | {p50} | {} |", rate.unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_a_mark_for_the_table() {
        let texts = Pages::here().texts(&Report::default()).unwrap();
        assert!(texts.iter().any(|(path, _)| path.ends_with("README.md")));
    }
}
