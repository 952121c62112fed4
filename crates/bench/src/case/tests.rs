use super::*;
use crate::run::measure;

/// A contender that fails after this number of turns.
struct ContenderThatFails {
    turns_left: usize,
}

impl Contender for ContenderThatFails {
    fn turn(&mut self) -> Result<Figures, Failure> {
        self.turns_left = self.turns_left.checked_sub(1).ok_or("Broken pipe")?;
        Ok(Figures::from([(RATE.to_owned(), 1.0)]))
    }
}

fn case() -> Case {
    Case::new("cycle", "Cycles", RATE)
}

#[test]
fn an_optional_contender_that_fails_is_absent_and_the_others_are_measured() {
    let mut case = case();
    case.add("ours", ContenderThatFails { turns_left: 4 });
    case.add_optional("peer", Ok::<_, Failure>(ContenderThatFails { turns_left: 2 }));
    case.add_optional("last", Ok::<_, Failure>(ContenderThatFails { turns_left: 4 }));
    let measured = measure(case, 3).unwrap();
    let names: Vec<&str> = measured.contenders.iter().map(|contender| &*contender.name).collect();
    assert_eq!(names, ["ours", "last"]);
    assert!(
        measured.contenders.iter().all(|contender| contender.figures[RATE].len() == 3),
        "a contender must have its own figures for each turn"
    );
    let absent: Vec<(&str, &str)> = measured.absent.iter().map(|absent| (&*absent.name, &*absent.why)).collect();
    assert_eq!(absent, [("peer", "failed (Broken pipe)")]);
}

#[test]
fn a_case_fails_if_a_contender_fails_that_is_not_optional() {
    let mut case = case();
    case.add("ours", ContenderThatFails { turns_left: 2 });
    case.add_optional("peer", Ok::<_, Failure>(ContenderThatFails { turns_left: 4 }));
    let error = measure(case, 3).err().expect("ours must fail");
    assert_eq!(error.to_string(), "cycle, ours: Broken pipe");
}
