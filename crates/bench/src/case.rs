//! What is measured: a case, its contenders, and the bars that they are held to.

use std::collections::BTreeMap;

use crate::Failure;

/// Cycles of acquire and release in a second.
pub(crate) const RATE: &str = "cycles_per_second";
/// How long one takes, in microseconds.
pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";

/// What one turn of one contender came to, by the name of the figure.
pub(crate) type Figures = BTreeMap<String, f64>;

/// Takes its turn, again and again.
pub(crate) trait Contender {
    /// Measures once.
    ///
    /// # Errors
    ///
    /// Whatever kept it from measuring.
    fn turn(&mut self) -> Result<Figures, Failure>;
}

/// Contenders of one kind of work, who take turns.
pub(crate) struct Case {
    /// As it is asked for, in words of the command line: `cycle-5-512`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What was done, for whoever reads the figures.
    pub(crate) about: String,
    /// The figure that contenders are compared by.
    pub(crate) figure: &'static str,
    /// In the order of their turns. Ratios are to the first.
    pub(crate) contenders: Vec<(String, Box<dyn Contender>)>,
    /// Who should be here, and is not, and why.
    pub(crate) absent: Vec<(String, String)>,
    /// Those without whom the others go on.
    guests: Vec<String>,
    pub(crate) bars: Vec<Bar>,
    /// What its contenders differ in, if it is a number: the first word of their names. It is drawn, then.
    pub(crate) axis: Option<&'static str>,
    /// Other than as many as were asked for.
    pub(crate) turns: Option<usize>,
    /// What has to be there while it is measured; after the contenders, as they go first.
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
            guests: Vec::new(),
            bars: Vec::new(),
            axis: None,
            turns: None,
            kept: Vec::new(),
        }
    }

    /// Keeps servers, and whatever else it needs, until it is over.
    pub(crate) fn keep(&mut self, what: impl std::any::Any) {
        self.kept.push(Box::new(what));
    }

    pub(crate) fn add(&mut self, name: impl Into<String>, contender: impl Contender + 'static) {
        self.contenders.push((name.into(), Box::new(contender)));
    }

    /// Lets everybody take a turn that nobody counts: what they need is connected then.
    pub(crate) fn warm_up(&mut self) -> Result<(), Failure> {
        self.turn("to warm up").map(drop)
    }

    /// Lets everybody take a turn: what it came to, by the contender's name. A guest who breaks off is absent from then on.
    pub(crate) fn turn(&mut self, which: &str) -> Result<BTreeMap<String, Figures>, Failure> {
        let (mut figures, mut gone) = (BTreeMap::new(), Vec::new());
        for (name, contender) in &mut self.contenders {
            eprintln!("{}, {which}: {name}", self.name);
            match contender.turn() {
                Ok(read) => drop(figures.insert(name.clone(), read)),
                Err(error) if self.guests.contains(name) => {
                    eprintln!("{}, {name}: {error}; the others go on", self.name);
                    gone.push((name.clone(), format!("it broke off ({error})")));
                }
                Err(error) => return Err(format!("{}, {name}: {error}", self.name).into()),
            }
        }
        self.contenders.retain(|(name, _)| gone.iter().all(|(gone, _)| gone != name));
        self.absent.extend(gone);
        Ok(figures)
    }

    /// Adds a contender that may not be there, or break off.
    pub(crate) fn add_if(
        &mut self,
        name: impl Into<String>,
        contender: Result<impl Contender + 'static, impl std::fmt::Display>,
    ) {
        let name = name.into();
        match contender {
            Ok(contender) => {
                self.guests.push(name.clone());
                self.add(name, contender);
            }
            Err(why) => self.absent.push((name, why.to_string())),
        }
    }
}

/// Where a ratio, or a figure, must get to.
#[derive(Clone)]
pub(crate) struct Bar {
    pub(crate) who: String,
    pub(crate) figure: &'static str,
    /// Whose figure of the same turn it is divided by; nobody's: the figure itself counts.
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
