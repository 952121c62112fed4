//! Turns: A B C A B C, so that a noisy moment is everyone's.

use crate::Failure;
use crate::case::{Case, Figures};
use crate::machine::Machine;
use crate::report::Measured;

/// Lets every contender of a case take so many turns, and one before that does not count.
pub(crate) fn measure(mut case: Case, turns: usize) -> Result<Measured, Failure> {
    let turns = case.turns.unwrap_or(turns);
    let machine = Machine::now();
    let mut figures: Vec<Vec<Figures>> = case.contenders.iter().map(|_| Vec::new()).collect();
    for turn in 0..=turns {
        for ((name, contender), figures) in case.contenders.iter_mut().zip(&mut figures) {
            eprintln!("{}, turn {turn} of {turns}: {name}", case.name);
            let read = contender.turn().map_err(|error| format!("{}, {name}: {error}", case.name))?;
            if turn > 0 {
                figures.push(read);
            }
        }
    }
    Ok(Measured::new(&case, machine, &figures))
}
