//! Several workers that run at the same time and count as one contender.

use super::Worker;
use crate::Failure;
use crate::case::{Contender, Figures, P50, P99, RATE};
use crate::sorted_readings::SortedReadings;

/// Several workers. The rate of the contender is the sum of their rates. Its times are the medians of their times.
pub(crate) struct ParallelWorkers(pub(crate) Vec<Worker>);

impl Contender for ParallelWorkers {
    fn turn(&mut self) -> Result<Figures, Failure> {
        self.0.iter_mut().try_for_each(Worker::start_turn)?;
        let figures = self.0.iter_mut().map(Worker::read_figures).collect::<Result<Vec<_>, _>>()?;
        let readings = |figure: &str| {
            SortedReadings::of(figures.iter().filter_map(|figures| figures.get(figure).copied()).collect())
        };
        let rate = figures.iter().filter_map(|figures| figures.get(RATE)).sum();
        Ok(Figures::from([
            (RATE.into(), rate),
            (P50.into(), readings(P50).median()),
            (P99.into(), readings(P99).median()),
        ]))
    }
}
