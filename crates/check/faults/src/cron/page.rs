//! Writes the page about the crontab line.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::case::Case;
use super::crontab::{CRONTAB_LINE, HOSTS, Outcome, PERIOD, TTL};
use crate::clock::seconds;
use crate::report::Environment;

/// A case and its outcome.
#[derive(Debug)]
pub struct CaseResult {
    /// The case.
    pub case: &'static Case,
    /// The outcome of the case.
    pub outcome: Outcome,
}

impl CaseResult {
    /// Whether every claim is true.
    pub fn has_passed(&self) -> bool {
        self.case.claims.iter().all(|claim| claim.holds_for(&self.outcome))
    }

    /// The claims that are false, as text.
    fn false_claims(&self) -> String {
        let claims = self.case.claims.iter().filter(|claim| !claim.holds_for(&self.outcome));
        claims.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn verdict(&self) -> String {
        if self.has_passed() { "passed".into() } else { format!("**failed**: {}", self.false_claims()) }
    }
}

impl fmt::Display for CaseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.has_passed() { "passed".into() } else { format!("FAILED: {}", self.false_claims()) };
        write!(f, "{}: {verdict}\n    {}", self.case.title, describe_outcome(&self.outcome))
    }
}

/// Describes the outcome of a case.
fn describe_outcome(outcome: &Outcome) -> String {
    let Outcome { cron_ticks, run_results, reports_before, reports_after, time_to_next_report, findings } = outcome;
    let mut runs_by_code: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    for run_result in run_results {
        *runs_by_code.entry(run_result.exit_code).or_default() += 1;
    }
    let describe_exits = |(code, count): (&Option<i32>, &usize)| match code {
        Some(code) => format!("{} exited with {code}", counted_runs(*count)),
        None => format!("{} ended by a signal", counted_runs(*count)),
    };
    let exits: Vec<String> = runs_by_code.iter().map(describe_exits).collect();
    let exits = if exits.is_empty() { "no run ended".into() } else { exits.join(", ") };
    let times = if *cron_ticks == 1 { "once".into() } else { format!("{cron_ticks} times") };
    let mut text = format!(
        "Cron started the line {times} on each host: {exits}. Reports that began: {reports_before} before the operation, {reports_after} after it."
    );
    if let Some(time) = time_to_next_report {
        let _ = write!(text, " The next report began {:.1} s after the operation.", time.as_secs_f64());
    }
    if findings.overlaps > 0 {
        let _ = write!(text, " Two reports ran at the same time for {:.1} s.", seconds(findings.longest_overlap));
    }
    if findings.killed_clients > 0 {
        let _ = write!(text, " The test killed {}.", counted_runs(findings.killed_clients));
    }
    text
}

fn counted_runs(count: usize) -> String {
    format!("{count} {}", if count == 1 { "run" } else { "runs" })
}

/// The page about the crontab line, in Markdown.
pub fn page(environment: &Environment, results: &[CaseResult]) -> String {
    let Environment { date, commit, server, system } = environment;
    let (period, ttl, line) = (PERIOD.as_secs(), TTL.as_secs(), CRONTAB_LINE.join(" "));
    let mut page = format!(
        "# The crontab recipe under ordinary operations\n\n\
         For operators who want to know what their cron jobs do while nodes are backed up, restarted or unreachable, and while\n\
         processes are stopped or killed. Written by `./x faults --cron` on {date}, commit {commit};\n\
         do not edit. {server}; {system}.\n\n\
         {HOSTS} hosts have this crontab line, which is the README's line with shorter times:\n\n\
         ```\nquorlock {line} -- report.sh\n```\n\n\
         They use three nodes (lock servers) with `appendonly yes`, listed in a configuration file. Times are scaled down: cron starts\n\
         the line on every host every {period} s instead of once a night, and the ttl and max_ttl are {ttl} s. The report records its\n\
         beginning, its steps and its fence.\n\n\
         A *run* is one `quorlock run`, and has up to three processes. The *wrapper* is the `quorlock run` process itself, which holds\n\
         the lock. The *command* is a shell script, and the report is its child, as in most jobs. The *guard* kills the command if the\n\
         wrapper is stopped or killed. A run that finds the lock held exits with 0 and starts no report, because of `--if-held skip`.\n\n\
         Each case has one operation, for example a backup, and a list of claims. It has passed if all of its claims are true. In some\n\
         cases the test kills a run. Such a run does not count as exited.\n\n\
         | case | result |\n|---|---|\n"
    );
    for result in results {
        let _ = writeln!(page, "| {} | {} |", result.case.title, result.verdict());
    }
    for CaseResult { case, outcome } in results {
        let _ = writeln!(page, "\n## {}\n\n{}\n", capitalized(case.title), case.description);
        for claim in case.claims {
            let _ = writeln!(page, "- {claim}: {}", if claim.holds_for(outcome) { "true" } else { "**false**" });
        }
        let _ = writeln!(page, "\n{}", describe_outcome(outcome));
        let messages = messages(outcome);
        if !messages.is_empty() {
            let _ = writeln!(page, "\n```\n{messages}\n```");
        }
    }
    page
}

/// For each exit code other than 0, the messages of the last run with this code.
fn messages(outcome: &Outcome) -> String {
    let failed_runs = outcome.run_results.iter().filter(|run_result| run_result.exit_code != Some(0));
    let last_by_code: BTreeMap<Option<i32>, &str> =
        failed_runs.map(|run_result| (run_result.exit_code, run_result.stderr.trim())).collect();
    let messages = last_by_code.iter().filter(|(_, text)| !text.is_empty()).map(|(_, text)| (*text).to_owned());
    messages.collect::<Vec<_>>().join("\n")
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
