//! Runs the turns of contenders alternately (A B C A B C), so that noise affects all contenders.

use std::collections::BTreeMap;

use crate::Failure;
use crate::case::{Case, Figures};
use crate::machine::Machine;
use crate::report::CaseResult;

/// Runs `turns` turns of each contender, after one turn that does not count.
pub(crate) fn measure(mut case: Case, turns: usize) -> Result<CaseResult, Failure> {
    let turns = case.turns.unwrap_or(turns);
    let machine = Machine::now();
    let mut figures = BTreeMap::<String, Vec<Figures>>::new();
    for turn in 0..=turns {
        let figures_of_turn = case.run_turns(&format!("turn {turn} of {turns}"))?;
        if turn > 0 {
            for (name, of_contender) in figures_of_turn {
                figures.entry(name).or_default().push(of_contender);
            }
        }
    }
    // An optional contender that failed is no longer among the contenders.
    let figures_of_contenders: Vec<_> =
        case.contenders.iter().map(|(name, _)| figures.remove(name).unwrap_or_default()).collect();
    Ok(CaseResult::new(&case, machine, &figures_of_contenders))
}
