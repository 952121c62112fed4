//! The stored results: for each case, every figure of every turn, and the ratios of the contenders.

mod markdown;
mod page;
mod plot;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::case::{Bar, Case, Figures, Limit};
use crate::machine::Machine;
use crate::sorted_readings::SortedReadings;
pub(crate) use markdown::{case_as_markdown, number};
use markdown::{label, without_unit};
pub(crate) use page::Pages;

/// All cases that were measured.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) cases: Vec<CaseResult>,
}

/// One case, measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct CaseResult {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) figure: String,
    /// The machine, and its load before the case began.
    pub(crate) machine: Machine,
    pub(crate) contenders: Vec<ContenderResult>,
    pub(crate) absent: Vec<AbsentContender>,
    pub(crate) bars: Vec<BarResult>,
    /// The unit of the number with which each contender's name begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) axis: Option<String>,
}

/// A contender's figures, turn by turn.
#[derive(Serialize, Deserialize)]
pub(crate) struct ContenderResult {
    pub(crate) name: String,
    pub(crate) figures: BTreeMap<String, Vec<f64>>,
    /// The case's figure divided by that of the first contender.
    pub(crate) ratio: Option<Summary>,
}

/// A contender that was not measured, and why.
#[derive(Serialize, Deserialize)]
pub(crate) struct AbsentContender {
    pub(crate) name: String,
    pub(crate) why: String,
}

/// A bar, and whether it was met.
#[derive(Serialize, Deserialize)]
pub(crate) struct BarResult {
    pub(crate) what: String,
    pub(crate) limit: Limit,
    pub(crate) value: Summary,
    pub(crate) met: bool,
}

/// The median, the lowest and the highest of one value per turn: a ratio, or a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Summary {
    /// Computes the summary of one value per turn. `None` without a value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut readings = SortedReadings::default();
        values.into_iter().filter(|value| value.is_finite()).for_each(|value| readings.add(value));
        (readings.len() > 0).then(|| Self {
            median: readings.median(),
            low: readings.quantile(0.0),
            high: readings.quantile(1.0),
        })
    }
}

impl Report {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")?)
    }

    /// Adds a case. It replaces a case of the same name.
    pub(crate) fn add(&mut self, case: CaseResult) {
        match self.cases.iter_mut().find(|known| known.name == case.name) {
            Some(known) => *known = case,
            None => self.cases.push(case),
        }
    }

    /// Sorts the cases in the order of `names`, and removes cases that no longer exist.
    pub(crate) fn put_in_order(&mut self, names: &[String]) {
        let index = |case: &CaseResult| names.iter().position(|name| *name == case.name);
        self.cases.retain(|case| index(case).is_some());
        self.cases.sort_by_key(index);
    }

    pub(crate) fn case(&self, name: &str) -> Option<&CaseResult> {
        self.cases.iter().find(|case| case.name == name)
    }
}

impl CaseResult {
    /// Creates the result from the figures of each contender's turns. The contenders have the order of the case.
    pub(crate) fn new(case: &Case, machine: Machine, turns: &[Vec<Figures>]) -> Self {
        let mut contenders: Vec<ContenderResult> = (case.contenders.iter())
            .zip(turns)
            .map(|((name, _), turns)| {
                let mut figures = BTreeMap::<String, Vec<f64>>::new();
                for (figure, value) in turns.iter().flatten() {
                    figures.entry(figure.clone()).or_default().push(rounded(*value));
                }
                ContenderResult { name: name.clone(), figures, ratio: None }
            })
            .collect();
        if let Some(first) = contenders.first().map(|first| first.turns(case.figure).to_vec()) {
            for contender in &mut contenders {
                contender.ratio = Summary::of(quotients(contender.turns(case.figure), &first));
            }
        }
        let mut measured = Self {
            name: case.name.clone(),
            title: case.title.clone(),
            about: case.about.clone(),
            figure: case.figure.into(),
            machine,
            contenders,
            absent: case
                .absent
                .iter()
                .map(|(name, why)| AbsentContender { name: name.clone(), why: why.clone() })
                .collect(),
            bars: Vec::new(),
            axis: case.axis.map(Into::into),
        };
        measured.bars = case.bars.iter().filter_map(|bar| measured.check_bar(bar)).collect();
        measured
    }

    pub(crate) fn contender(&self, name: &str) -> Option<&ContenderResult> {
        self.contenders.iter().find(|contender| contender.name == name)
    }

    /// Checks a bar. `None` if one of its contenders is absent.
    fn check_bar(&self, bar: &Bar) -> Option<BarResult> {
        let own = self.contender(&bar.contender)?.turns(bar.figure);
        let (what, value) = match &bar.against {
            Some((against, figure)) => {
                let others = self.contender(against)?.turns(figure);
                (
                    format!("{}: {} relative to {against}", bar.contender, without_unit(bar.figure)),
                    Summary::of(quotients(own, others))?,
                )
            }
            None => (format!("{}: {}", bar.contender, label(bar.figure)), Summary::of(own.iter().copied())?),
        };
        Some(BarResult { what, limit: bar.limit, value, met: bar.limit.is_met_by(value.median) })
    }
}

impl ContenderResult {
    pub(crate) fn turns(&self, figure: &str) -> &[f64] {
        self.figures.get(figure).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn median(&self, figure: &str) -> Option<f64> {
        Summary::of(self.turns(figure).iter().copied()).map(|ratio| ratio.median)
    }
}

fn quotients(own: &[f64], others: &[f64]) -> impl Iterator<Item = f64> {
    own.iter().zip(others).map(|(own, other)| own / other)
}

/// Rounds to five digits, because the clock is not more precise.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
