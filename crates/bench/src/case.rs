//! A case: its contenders, and the bars that they should meet. A *turn* is one measurement of one contender.

use std::collections::BTreeMap;

use crate::Failure;

/// Cycles of acquire and release in a second.
pub(crate) const RATE: &str = "cycles_per_second";
/// Median time of one cycle, in microseconds.
pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

/// The figures of one turn, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// A library, client or program that is measured.
pub(crate) trait Contender {
    /// Runs one turn.
    ///
    /// # Errors
    ///
    /// If the measurement failed.
    fn turn(&mut self) -> Result<Figures, Failure>;
}

/// Contenders that do the same work. They take turns, several times.
pub(crate) struct Case {
    /// The name on the command line, e.g. `cycle-5-512`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// A description of the case, for readers of the report.
    pub(crate) about: String,
    /// The name of the figure by which contenders are compared.
    pub(crate) figure: &'static str,
    /// The contenders, in the order of their turns. Ratios are relative to the first contender.
    pub(crate) contenders: Vec<(String, Box<dyn Contender>)>,
    /// Contenders that could not take part, and why.
    pub(crate) absent: Vec<(String, String)>,
    /// Contenders that may fail without ending the case.
    optional: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// The unit of the number with which each contender's name begins, e.g. `callers`. If there is one, the report has a
    /// plot.
    pub(crate) axis: Option<&'static str>,
    /// The number of turns of each contender. `None` means the number from the command line.
    pub(crate) turns: Option<usize>,
    /// Servers and folders that the contenders need. Fields are dropped in order, so this field comes after the
    /// contenders.
    kept_alive: Vec<Box<dyn std::any::Any>>,
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, figure: &'static str) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            about: String::new(),
            figure,
            contenders: Vec::new(),
            absent: Vec::new(),
            optional: Vec::new(),
            bars: Vec::new(),
            axis: None,
            turns: None,
            kept_alive: Vec::new(),
        }
    }

    /// Keeps a server or a folder until the case ends.
    pub(crate) fn keep_alive(&mut self, resource: impl std::any::Any) {
        self.kept_alive.push(Box::new(resource));
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, contender: impl Contender + 'static) {
        self.contenders.push((name.into(), Box::new(contender)));
    }

    /// Runs one turn of each contender and ignores the figures. Afterwards all contenders are connected.
    pub(crate) fn warm_up(&mut self) -> Result<(), Failure> {
        self.run_turns("to warm up").map(drop)
    }

    /// Runs one turn of each contender, and returns the figures by contender. An optional contender that fails takes no
    /// more turns. `label` names the turn in the output.
    pub(crate) fn run_turns(&mut self, label: &str) -> Result<BTreeMap<String, Figures>, Failure> {
        let (mut figures, mut failed) = (BTreeMap::new(), Vec::new());
        for (name, contender) in &mut self.contenders {
            eprintln!("{}, {label}: {name}", self.name);
            match contender.turn() {
                Ok(read) => drop(figures.insert(name.clone(), read)),
                Err(error) if self.optional.contains(name) => {
                    eprintln!("{}, {name}: {error}; continuing without it", self.name);
                    failed.push((name.clone(), format!("failed ({error})")));
                }
                Err(error) => return Err(format!("{}, {name}: {error}", self.name).into()),
            }
        }
        self.contenders.retain(|(name, _)| failed.iter().all(|(failed, _)| failed != name));
        self.absent.extend(failed);
        Ok(figures)
    }

    /// Adds an optional contender, or records why it is absent.
    pub(crate) fn add_optional(
        &mut self,
        name: impl Into<String>,
        contender: Result<impl Contender + 'static, impl std::fmt::Display>,
    ) {
        let name = name.into();
        match contender {
            Ok(contender) => {
                self.optional.push(name.clone());
                self.add(name, contender);
            }
            Err(why) => self.absent.push((name, why.to_string())),
        }
    }
}

/// A limit that a figure, or the ratio of two figures, should meet.
#[derive(Clone)]
pub(crate) struct Bar {
    pub(crate) contender: String,
    pub(crate) figure: &'static str,
    /// The divisor of the ratio: a contender and one of its figures. `None` if the bar is about a single figure.
    pub(crate) against: Option<(String, &'static str)>,
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    pub(crate) fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

impl Bar {
    /// A bar for the ratio of the same figure of two contenders.
    pub(crate) fn ratio(contender: &str, figure: &'static str, against: &str, limit: Limit) -> Self {
        Self { contender: contender.into(), figure, against: Some((against.into(), figure)), limit }
    }

    /// A bar for a single figure.
    pub(crate) fn figure(contender: &str, figure: &'static str, limit: Limit) -> Self {
        Self { contender: contender.into(), figure, against: None, limit }
    }
}

#[cfg(test)]
mod tests;
