//! Runs contenders alternately (A B C A B C), so that noise affects all of them.

use std::collections::BTreeMap;

use crate::Failure;
use crate::case::{Case, Figures};
use crate::machine::Machine;
use crate::report::Measured;

/// Runs one turn that does not count and then `turns` turns of each contender.
pub(crate) fn measure(mut case: Case, turns: usize) -> Result<Measured, Failure> {
    let turns = case.turns.unwrap_or(turns);
    let machine = Machine::now();
    let mut figures = BTreeMap::<String, Vec<Figures>>::new();
    for turn in 0..=turns {
        let read = case.turn(&format!("turn {turn} of {turns}"))?;
        if turn > 0 {
            for (name, read) in read {
                figures.entry(name).or_default().push(read);
            }
        }
    }
    // Contenders that failed have no figures.
    let of_each: Vec<_> = case.contenders.iter().map(|(name, _)| figures.remove(name).unwrap_or_default()).collect();
    Ok(Measured::new(&case, machine, &of_each))
}
