use super::*;
use crate::run::measure;

/// A contender that succeeds in its first turns, and fails when no turns are left.
struct ContenderThatFails {
    turns: usize,
}

impl Contender for ContenderThatFails {
    fn turn(&mut self) -> Result<Figures, Failure> {
        self.turns = self.turns.checked_sub(1).ok_or("Broken pipe")?;
        Ok(Figures::from([(RATE.to_owned(), 1.0)]))
    }
}

fn case() -> Case {
    Case::new("cycle", "Cycles", RATE)
}

#[test]
fn a_peer_that_fails_is_left_out_and_the_others_are_measured() {
    let mut case = case();
    case.add("ours", ContenderThatFails { turns: 4 });
    case.add_if("peer", Ok::<_, Failure>(ContenderThatFails { turns: 2 }));
    case.add_if("last", Ok::<_, Failure>(ContenderThatFails { turns: 4 }));
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
fn a_case_fails_if_ours_fails() {
    let mut case = case();
    case.add("ours", ContenderThatFails { turns: 2 });
    case.add_if("peer", Ok::<_, Failure>(ContenderThatFails { turns: 4 }));
    let error = measure(case, 3).err().expect("ours must fail");
    assert_eq!(error.to_string(), "cycle, ours: Broken pipe");
}
