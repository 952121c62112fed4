//! Writes the page about the crontab line.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::case::Case;
use super::crontab::{HOSTS, LINE, Outcome, PERIOD, TTL};
use crate::clock::seconds;
use crate::report::Machine;

/// A case and its outcome.
#[derive(Debug)]
pub struct CaseResult {
    /// The case.
    pub case: &'static Case,
    /// Its outcome.
    pub outcome: Outcome,
}

impl CaseResult {
    /// Whether every claim holds.
    pub fn is_good(&self) -> bool {
        self.case.claims.iter().all(|claim| claim.holds(&self.outcome))
    }

    /// The claims that do not hold, as text.
    fn failed(&self) -> String {
        let failed = self.case.claims.iter().filter(|claim| !claim.holds(&self.outcome));
        failed.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn verdict(&self) -> String {
        if self.is_good() { "holds".into() } else { format!("**fails**: {}", self.failed()) }
    }
}

impl fmt::Display for CaseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_good() { "holds".into() } else { format!("FAILS: {}", self.failed()) };
        write!(f, "{}: {verdict}\n    {}", self.case.title, story(&self.outcome))
    }
}

/// A paragraph about the outcome.
fn story(outcome: &Outcome) -> String {
    let Outcome { ticks, ends, before, after, takeover, found } = outcome;
    let mut codes: BTreeMap<Option<i32>, usize> = BTreeMap::new();
    for end in ends {
        *codes.entry(end.code).or_default() += 1;
    }
    let code = |(code, count): (&Option<i32>, &usize)| match code {
        Some(code) => format!("{count} with {code}"),
        None => format!("{count} by a signal"),
    };
    let codes: Vec<String> = codes.iter().map(code).collect();
    let codes = if codes.is_empty() { "none".into() } else { codes.join(", ") };
    let mut story =
        format!("{ticks} ticks. Runs that ended: {codes}. Reports: {before} before the operation, {after} after.");
    if let Some(takeover) = takeover {
        let _ = write!(story, " The next report began {:.1} s after the operation.", takeover.as_secs_f64());
    }
    if found.overlaps > 0 {
        let _ = write!(story, " Two reports ran at a time for {:.1} s.", seconds(found.longest_overlap));
    }
    if found.killed > 0 {
        let _ = write!(story, " Runs killed by the case, or at its end: {}.", found.killed);
    }
    story
}

/// The page about the crontab line, in Markdown.
pub fn page(machine: &Machine, results: &[CaseResult]) -> String {
    let Machine { date, commit, server, system } = machine;
    let (period, ttl, line) = (PERIOD.as_secs(), TTL.as_secs(), LINE.join(" "));
    let mut page = format!(
        "# The crontab recipe under ordinary operations\n\n\
         This page is for operators who want to know what their cron jobs do while nodes are backed up, restarted or\n\
         unreachable, and while processes are stopped or killed. Written by `./x faults --cron` on {date}, commit {commit};\n\
         do not edit. {server}; {system}.\n\n\
         {HOSTS} hosts have this crontab line, which is that of the README with shorter times:\n\n\
         ```\nquorlock {line} -- report.sh\n```\n\n\
         They use three nodes with `appendonly yes`, listed in a configuration file. Times are scaled down: cron starts the line on\n\
         every host every {period} s instead of every ten minutes, and the ttl and max_ttl are {ttl} s. The report records its\n\
         beginning, its steps and its fence. It runs as a child of a shell script, as most jobs do.\n\n\
         | case | result |\n|---|---|\n"
    );
    for result in results {
        let _ = writeln!(page, "| {} | {} |", result.case.title, result.verdict());
    }
    for CaseResult { case, outcome } in results {
        let _ = writeln!(page, "\n## {}\n\n{}\n", capitalized(case.title), case.done);
        for claim in case.claims {
            let _ = writeln!(page, "- {claim}: {}", if claim.holds(outcome) { "holds" } else { "**fails**" });
        }
        let _ = writeln!(page, "\n{}", story(outcome));
        let messages = messages(outcome);
        if !messages.is_empty() {
            let _ = writeln!(page, "\n```\n{messages}\n```");
        }
    }
    page
}

/// The messages of the last run of each exit code other than 0.
fn messages(outcome: &Outcome) -> String {
    let failed = outcome.ends.iter().filter(|end| end.code != Some(0));
    let last: BTreeMap<Option<i32>, &str> = failed.map(|end| (end.code, end.messages.trim())).collect();
    let messages = last.iter().filter(|(_, text)| !text.is_empty()).map(|(_, text)| (*text).to_owned());
    messages.collect::<Vec<_>>().join("\n")
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
