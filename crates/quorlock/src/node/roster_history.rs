//! Random histories of roster commands, for tests that compare a node with the core.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use quorlock_core::node::Identity;
use quorlock_core::node::roster::{
    Ballot, Change, ClusterId, Electorate, Life, Membership, Promise, Proposal, Roster, RosterCommand, Settings,
};
use quorlock_core::quorum::MemberId;

/// A roster command, without the values that depend on earlier commands.
#[derive(Clone, Debug)]
pub(crate) enum RosterStep {
    Read,
    Identify {
        identity: usize,
        floor_offset: i64,
    },
    Promise {
        generation: Generation,
        ballot: Ballot,
        electorate: Electorate,
    },
    Accept {
        /// The promised ballot if `None`.
        ballot: Option<Ballot>,
        roster: Choice,
    },
    Install(Choice),
    Settle(Generation),
    Claim {
        is_this_life: bool,
        since: Generation,
        elapsed: Elapsed,
    },
}

/// A generation, relative to the installed one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation(i64);

/// How much of a quarantine is claimed to have passed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Elapsed {
    /// This much more than the highest claim.
    Highest(i64),
    /// This much more than the whole quarantine.
    Whole(i64),
}

/// A roster.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    base: Base,
    change: Kind,
}

#[derive(Clone, Debug)]
enum Base {
    Installed,
    Accepted,
    Any(Index),
}

/// How a roster follows from another one.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Same,
    /// Without a change of the members.
    Next,
    ReplaceThis,
    ReplaceOther,
    RemoveThis,
    RemoveOther,
    /// All members but this one leave.
    OnlyThis,
    AddThis,
    AddOthers(usize),
    Settings(usize),
    EverySeat,
    OtherCluster,
}

const SETTINGS: usize = 5;

fn settings(which: usize) -> Settings {
    let first = Settings {
        max_ttl_millis: 3_000,
        max_skew_micros: 1_000_000,
        key_template: "quorlock:{name}".into(),
        trusts_restarts: false,
    };
    match which {
        0 => first,
        1 | 2 => Settings { trusts_restarts: true, ..first },
        3 => Settings { max_ttl_millis: 86_400_000, ..first },
        _ => Settings { key_template: "with spaces, \u{9501} and \u{a0}/{name}".into(), ..first },
    }
}

/// Returns a step. The node may report one of `identities`.
pub(crate) fn roster_step(identities: usize) -> impl Strategy<Value = RosterStep> {
    let bits = select(vec![0, 1, 0xffff_ffff, 1 << 32, u64::MAX - 1, u64::MAX]);
    let rounds = prop_oneof![6 => 0..3_u64, 1 => select(vec![(1 << 53) - 1, 1 << 53, u64::MAX])];
    let ballot = (rounds, bits).prop_map(|(round, bits)| Ballot { round, bits }).boxed();
    let generation = |usual: i64| prop_oneof![6 => Just(usual), 1 => -2..4_i64].prop_map(Generation);
    let electorate = prop_oneof![2 => Just(Electorate::Members), 1 => Just(Electorate::Seats)];
    let elapsed = prop_oneof![
        2 => (-1_000_000..1_000_000_i64).prop_map(Elapsed::Highest),
        3 => (-1..2_i64).prop_map(Elapsed::Whole),
    ];
    let offset = select(vec![-3_000_000, 0, 2_000_000, -999_999_999_999_999]);
    prop_oneof![
        1 => Just(RosterStep::Read),
        4 => (prop_oneof![3 => Just(0), 1 => 0..identities], offset)
            .prop_map(|(identity, floor_offset)| RosterStep::Identify { identity, floor_offset }),
        5 => (generation(1), ballot.clone(), electorate)
            .prop_map(|(generation, ballot, electorate)| RosterStep::Promise { generation, ballot, electorate }),
        5 => (prop_oneof![6 => Just(None), 1 => ballot.prop_map(Some)], choice())
            .prop_map(|(ballot, roster)| RosterStep::Accept { ballot, roster }),
        8 => choice().prop_map(RosterStep::Install),
        2 => generation(0).prop_map(RosterStep::Settle),
        10 => (prop::bool::weighted(0.9), generation(0), elapsed)
            .prop_map(|(is_this_life, since, elapsed)| RosterStep::Claim { is_this_life, since, elapsed }),
    ]
}

fn choice() -> impl Strategy<Value = Choice> {
    let base = prop_oneof![
        8 => Just(Base::Installed),
        3 => Just(Base::Accepted),
        1 => any::<Index>().prop_map(Base::Any),
    ];
    let change = prop_oneof![
        4 => Just(Kind::Same),
        3 => Just(Kind::Next),
        2 => Just(Kind::ReplaceThis),
        2 => Just(Kind::ReplaceOther),
        1 => Just(Kind::RemoveThis),
        1 => Just(Kind::RemoveOther),
        1 => Just(Kind::OnlyThis),
        6 => Just(Kind::AddThis),
        1 => (1..3_usize).prop_map(Kind::AddOthers),
        3 => (0..SETTINGS).prop_map(Kind::Settings),
        2 => Just(Kind::EverySeat),
        1 => Just(Kind::OtherCluster),
    ];
    (base, change).prop_map(|(base, change)| Choice { base, change })
}

/// The rosters and ids of a history.
#[derive(Clone, Debug, Default)]
pub(crate) struct RosterHistory {
    rosters: Vec<Arc<Roster>>,
    /// How many ids were drawn.
    ids: u64,
}

impl RosterHistory {
    /// Returns the commands after which a node votes, alone or with others.
    pub(crate) fn founding(&mut self, identity: Identity, others: usize, trusts_restarts: bool) -> [RosterCommand; 3] {
        let (member, life) = (self.member(), self.life());
        let settings = Settings { trusts_restarts, ..settings(0) };
        let roster = self.every_seat(ClusterId(1), member, others, settings, None);
        let claim = RosterCommand::Claim { life, since: roster.generation, elapsed_micros: roster.quarantine_micros() };
        [RosterCommand::Identify { identity, member, life, floor_offset: 0 }, RosterCommand::Install(roster), claim]
    }

    /// Returns the command of a step for a node that stores `known`.
    pub(crate) fn command(
        &mut self,
        step: &RosterStep,
        known: Option<&Membership>,
        identity: impl FnOnce(usize) -> Identity,
    ) -> RosterCommand {
        let installed = known.map_or(0, Membership::generation);
        let at = |generation: Generation| installed.saturating_add_signed(generation.0);
        match step {
            RosterStep::Read => RosterCommand::Read,
            RosterStep::Identify { identity: which, floor_offset } => RosterCommand::Identify {
                identity: identity(*which),
                member: self.member(),
                life: self.life(),
                floor_offset: *floor_offset,
            },
            RosterStep::Promise { generation, ballot, electorate } => RosterCommand::Promise {
                promise: Promise { generation: at(*generation), ballot: *ballot },
                electorate: *electorate,
            },
            RosterStep::Accept { ballot, roster } => {
                let promised = known.and_then(|known| known.promised).map(|promise| promise.ballot);
                let (ballot, roster) = (ballot.or(promised).unwrap_or_default(), self.roster(roster, known));
                RosterCommand::Accept(Proposal { ballot, roster })
            }
            RosterStep::Install(roster) => RosterCommand::Install(self.roster(roster, known)),
            RosterStep::Settle(generation) => RosterCommand::Settle { generation: at(*generation) },
            RosterStep::Claim { is_this_life, since, elapsed } => {
                let quarantine = known.and_then(|known| known.quarantine);
                let ordered = quarantine.map_or(installed, |quarantine| quarantine.since);
                RosterCommand::Claim {
                    life: known.filter(|_| *is_this_life).map_or(Life(u64::MAX), |known| known.life),
                    since: ordered.saturating_add_signed(since.0),
                    elapsed_micros: match elapsed {
                        Elapsed::Highest(more) => {
                            quarantine.map_or(0, |quarantine| quarantine.elapsed_micros).saturating_add_signed(*more)
                        }
                        Elapsed::Whole(more) => {
                            quarantine.map_or(0, |quarantine| quarantine.micros).saturating_add_signed(*more)
                        }
                    },
                }
            }
        }
    }

    /// Returns the command that gives a fresh id to a server with this identity.
    pub(crate) fn identify(&mut self, identity: Identity) -> RosterCommand {
        RosterCommand::Identify { identity, member: self.member(), life: self.life(), floor_offset: 0 }
    }

    /// Draws an id, whose half of the digits look like a number.
    fn member(&mut self) -> MemberId {
        self.ids += 1;
        MemberId(u128::from(self.ids) << 64 | u128::from(u64::MAX - self.ids))
    }

    fn life(&mut self) -> Life {
        self.ids += 1;
        Life(self.ids << 32 | 0xa)
    }

    /// Draws a server at an unused address.
    fn server(&mut self) -> (MemberId, Arc<str>) {
        let id = self.member();
        (id, format!("host{}:6379/0", self.ids).into())
    }

    fn every_seat(
        &mut self,
        cluster: ClusterId,
        this: MemberId,
        others: usize,
        settings: Settings,
        former: Option<&Roster>,
    ) -> Arc<Roster> {
        let mut seats = vec![(this, "this:6379/0".into())];
        seats.extend((0..others).map(|_| self.server()));
        let generation = former.map_or(0, |roster| roster.generation) + 1;
        let roster = Roster::of_every_seat(cluster, generation, seats, settings, former).unwrap();
        self.add(roster)
    }

    fn add(&mut self, roster: Roster) -> Arc<Roster> {
        let roster = Arc::new(roster);
        self.rosters.push(Arc::clone(&roster));
        roster
    }

    fn roster(&mut self, choice: &Choice, known: Option<&Membership>) -> Arc<Roster> {
        let this = known.and_then(|known| known.member.or(known.former)).unwrap_or_else(|| self.member());
        let installed = known.and_then(|known| known.roster.clone());
        let base = match &choice.base {
            Base::Accepted => known.and_then(|known| Some(known.accepted.as_ref()?.roster.clone())).or(installed),
            Base::Any(which) if !self.rosters.is_empty() => Some(which.get(&self.rosters).clone()),
            Base::Installed | Base::Any(_) => installed,
        };
        let Some(base) = base else { return self.every_seat(ClusterId(1), this, 2, settings(0), None) };
        if matches!(choice.base, Base::Accepted) {
            return base;
        }
        let other = base.members.iter().map(|member| member.id).find(|id| *id != this);
        let mut change = Change::default();
        match choice.change {
            Kind::EverySeat => {
                let others = (base.members.len() / 2) * 2;
                return self.every_seat(base.cluster, this, others, base.settings.clone(), Some(&base));
            }
            Kind::OtherCluster => {
                let founded = self.every_seat(ClusterId(2), this, 2, settings(0), Some(&base));
                return self.next(&founded, &Change::default());
            }
            Kind::Same => return base,
            Kind::Next => {}
            Kind::ReplaceThis => change = Change::replace(this, self.member(), "replacement:6379/0".into()),
            Kind::ReplaceOther => {
                let (id, address) = self.server();
                change = other.map_or(change, |other| Change::replace(other, id, address));
            }
            Kind::RemoveThis => change.remove.push(this),
            Kind::RemoveOther => change.remove.extend(other),
            Kind::OnlyThis => {
                change.remove.extend(base.members.iter().map(|member| member.id).filter(|id| *id != this));
            }
            Kind::AddThis => change.add.push((this, "this:6379/0".into())),
            Kind::AddOthers(count) => change.add.extend((0..count).map(|_| self.server())),
            Kind::Settings(which) => change.settings = Some(settings(which)),
        }
        self.next(&base, &change)
    }

    /// Returns the successor with this change, or without a change if the change is impossible.
    fn next(&mut self, base: &Roster, change: &Change) -> Arc<Roster> {
        let next = base.successor(change).or_else(|_| base.successor(&Change::default())).unwrap();
        self.add(next)
    }
}
