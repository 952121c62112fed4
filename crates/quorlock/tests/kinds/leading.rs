//! Candidates, and followers who look.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;
use quorlock::{AcquireError, Election, Fence, Leadership};

use crate::bench::{CLIENTS, Table};

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Somebody wants to lead, and does not wait for it.
    Campaign { client: usize },
    /// Somebody begins to campaign and turns away.
    GiveUp { client: usize },
    /// The leader steps down.
    Resign,
    /// The leader is dropped.
    Drop,
}

pub(crate) fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..CLIENTS).prop_map(|client| Step::Campaign { client }),
        1 => (0..CLIENTS).prop_map(|client| Step::GiveUp { client }),
        2 => Just(Step::Resign),
        1 => Just(Step::Drop),
    ]
}

pub(crate) async fn run(table: &Table<'_>, steps: Vec<Step>) {
    let name = table.name("leader");
    let election = |client: usize| table.client(client).election(&name).label(&label(client));
    let mut leads: Option<(usize, Leadership)> = None;
    let mut last: Option<Fence> = None;
    for step in steps {
        let acted = match step {
            Step::Campaign { client } => {
                let got = campaign(&election(client)).await;
                assert_eq!(got.is_some(), leads.is_none(), "{step:?}");
                if let Some(leadership) = got {
                    let term = leadership.term().unwrap();
                    assert!(last.replace(term) < Some(term), "terms grow");
                    leads = Some((client, leadership));
                }
                client
            }
            Step::GiveUp { client } => {
                let _ = election(client).campaign().now_or_never();
                client
            }
            Step::Resign | Step::Drop => {
                let Some((client, leadership)) = leads.take() else { continue };
                match step {
                    Step::Resign => leadership.step_down().await.unwrap(),
                    _ => drop(leadership),
                }
                client
            }
        };
        for report in table.look(acted, &name).await {
            assert_eq!((report.held.is_some(), report.waiting), (leads.is_some(), 0), "after {step:?}");
        }
        for follower in 0..CLIENTS {
            let known = election(follower).leader().await.unwrap();
            let known = known.map(|leader| (leader.holder.unwrap().label, leader.term));
            let leader = leads.as_ref().map(|(client, leadership)| (label(*client), leadership.term().unwrap()));
            assert_eq!(known, leader, "after {step:?}");
        }
        assert!(leads.as_ref().is_none_or(|(_, leadership)| leadership.is_leader()));
    }
}

async fn campaign(election: &Election) -> Option<Leadership> {
    match election.campaign_within(Duration::ZERO).await {
        Err(AcquireError::Held(_)) => None,
        other => Some(other.unwrap()),
    }
}

fn label(client: usize) -> String {
    format!("candidate {client}")
}
