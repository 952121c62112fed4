//! A case: its contenders, and the bars that they must meet.

use std::collections::BTreeMap;

use crate::Failure;

/// Cycles of acquire and release in a second.
pub(crate) const RATE: &str = "cycles_per_second";
/// Median time of one cycle, in microseconds.
pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

/// The figures of one turn of one contender, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// A contender, which is measured several times.
pub(crate) trait Contender {
    /// Measures the contender once.
    ///
    /// # Errors
    ///
    /// If the measurement failed.
    fn turn(&mut self) -> Result<Figures, Failure>;
}

/// Contenders that do the same work and are measured one after the other, several times.
pub(crate) struct Case {
    /// The name on the command line, e.g. `cycle-5-512`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// A description of the case, for readers of the report.
    pub(crate) about: String,
    /// The figure by which contenders are compared.
    pub(crate) figure: &'static str,
    /// The contenders, in the order of their turns. Ratios are relative to the first contender.
    pub(crate) contenders: Vec<(String, Box<dyn Contender>)>,
    /// Contenders that could not take part, and why.
    pub(crate) absent: Vec<(String, String)>,
    /// Contenders that may fail without ending the case.
    optional: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// The unit of the number at the start of each contender's name, if there is one. The report then has a plot.
    pub(crate) axis: Option<&'static str>,
    /// The number of turns, if it differs from that of the command line.
    pub(crate) turns: Option<usize>,
    /// Servers and folders that the contenders need. Fields are dropped in order, so this field comes after the
    /// contenders.
    kept: Vec<Box<dyn std::any::Any>>,
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
            kept: Vec::new(),
        }
    }

    /// Keeps a server or folder until the case ends.
    pub(crate) fn keep(&mut self, what: impl std::any::Any) {
        self.kept.push(Box::new(what));
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, contender: impl Contender + 'static) {
        self.contenders.push((name.into(), Box::new(contender)));
    }

    /// Runs one turn of each contender and ignores the figures. All contenders are connected afterwards.
    pub(crate) fn warm_up(&mut self) -> Result<(), Failure> {
        self.turn("to warm up").map(drop)
    }

    /// Runs one turn of each contender and returns the figures by name. An optional contender that fails takes no
    /// further turns.
    pub(crate) fn turn(&mut self, which: &str) -> Result<BTreeMap<String, Figures>, Failure> {
        let (mut figures, mut gone) = (BTreeMap::new(), Vec::new());
        for (name, contender) in &mut self.contenders {
            eprintln!("{}, {which}: {name}", self.name);
            match contender.turn() {
                Ok(read) => drop(figures.insert(name.clone(), read)),
                Err(error) if self.optional.contains(name) => {
                    eprintln!("{}, {name}: {error}; continuing without it", self.name);
                    gone.push((name.clone(), format!("failed ({error})")));
                }
                Err(error) => return Err(format!("{}, {name}: {error}", self.name).into()),
            }
        }
        self.contenders.retain(|(name, _)| gone.iter().all(|(gone, _)| gone != name));
        self.absent.extend(gone);
        Ok(figures)
    }

    /// Adds an optional contender.
    pub(crate) fn add_if(
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

/// A limit that a ratio or a figure should meet.
#[derive(Clone)]
pub(crate) struct Bar {
    pub(crate) who: String,
    pub(crate) figure: &'static str,
    /// The divisor of the ratio: a contender and one of its figures. `None` if the limit applies to the figure itself.
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
    /// A ratio of the same figure of two contenders.
    pub(crate) fn ratio(who: &str, figure: &'static str, against: &str, limit: Limit) -> Self {
        Self { who: who.into(), figure, against: Some((against.into(), figure)), limit }
    }

    /// A figure by itself.
    pub(crate) fn figure(who: &str, figure: &'static str, limit: Limit) -> Self {
        Self { who: who.into(), figure, against: None, limit }
    }
}

#[cfg(test)]
mod tests;
