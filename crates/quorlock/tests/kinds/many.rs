//! Sets of names that overlap.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use quorlock::{AcquireError, ConfigError, Fence, Leases};

use crate::bench::{CLIENTS, Table};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Somebody asks once for these names, in any order and some of them twice.
    Try { client: usize, names: Vec<&'static str> },
    /// Somebody begins to ask and turns away.
    GiveUp { client: usize, names: Vec<&'static str> },
    /// Somebody who holds a set gives it back.
    Release(Index),
    /// Somebody who holds a set drops it.
    Drop(Index),
}

pub(crate) fn steps() -> impl Strategy<Value = Step> {
    let names = || vec(select(&NAMES[..]), 0..=4);
    prop_oneof![
        5 => (0..CLIENTS, names()).prop_map(|(client, names)| Step::Try { client, names }),
        1 => (0..CLIENTS, names()).prop_map(|(client, names)| Step::GiveUp { client, names }),
        2 => any::<Index>().prop_map(Step::Release),
        1 => any::<Index>().prop_map(Step::Drop),
    ]
}

pub(crate) async fn run(table: &Table<'_>, steps: Vec<Step>) {
    let mut held: Vec<(usize, Leases)> = Vec::new();
    let mut highest: BTreeMap<String, Fence> = BTreeMap::new();
    for step in steps {
        let client = match &step {
            Step::Try { client, names } => {
                let names: Vec<String> = names.iter().map(|name| table.name(name)).collect();
                let sorted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
                let is_open = held.iter().all(|(_, leases)| sorted.iter().all(|name| leases.get(name).is_none()));
                let asked = table.client(*client).all(&names).try_acquire().await;
                if sorted.is_empty() {
                    assert_eq!(asked.unwrap_err(), AcquireError::Config(ConfigError::NoNames));
                    continue;
                }
                let got = asked.unwrap();
                assert_eq!(got.is_some(), is_open, "{step:?}");
                if let Some(leases) = got {
                    assert!(leases.iter().map(|lease| lease.name().as_str()).eq(sorted), "sorted, and each once");
                    for lease in leases.iter() {
                        let fence = lease.fence().unwrap();
                        assert!(highest.insert(lease.name().to_string(), fence) < Some(fence), "fences grow");
                    }
                    held.push((*client, leases));
                }
                *client
            }
            Step::GiveUp { client, names } => {
                let names = names.iter().map(|name| table.name(name));
                let _ = table.client(*client).all(names).acquire().now_or_never();
                *client
            }
            Step::Release(which) | Step::Drop(which) => {
                if held.is_empty() {
                    continue;
                }
                let (client, leases) = held.remove(which.index(held.len()));
                match step {
                    Step::Release(_) => leases.release().await.unwrap(),
                    _ => drop(leases),
                }
                client
            }
        };
        for name in NAMES.map(|name| table.name(name)) {
            let is_held = held.iter().any(|(_, leases)| leases.get(&name).is_some());
            for report in table.look(client, &name).await {
                assert_eq!((report.held.is_some(), report.waiting), (is_held, 0), "{name} after {step:?}");
            }
        }
    }
}
