//! Who may vote, as a client's state machines know it: with all rules, or without one of them.

use std::sync::Arc;

use quorlock_core::node::roster::{Membership, Roster};
use quorlock_core::quorum::{Elector, Electors, MemberId};
use quorlock_core::roster::View;

use super::client::Client;
use super::setup::{Flaw, Setup, member_id};

/// The electors of the roster that the client believes.
pub(super) fn electors(setup: &Setup, view: &View, nodes: usize) -> Option<Arc<Electors>> {
    let roster = view.roster()?;
    if setup.has_flaw(Flaw::VotesBeforeQuarantineCount) {
        return Some(with_members(nodes, roster, roster.members.iter().map(|member| (member.id, 0))));
    }
    if setup.has_flaw(Flaw::PositionsCount) {
        let positions = (0..nodes).flat_map(|position| {
            roster.members.iter().map(move |member| (member_at(member.id, position), member.since))
        });
        return Some(with_members(nodes, roster, positions));
    }
    view.electors(nodes)
}

/// The electors of this roster and of the generation before. A majority of the roster is enough.
pub(super) fn electors_with_leavers(nodes: usize, roster: &Roster) -> Arc<Electors> {
    let members = roster.members.iter().map(|member| (member.id, member.since));
    with_members(nodes, roster, members.chain(roster.before.iter().map(|id| (*id, 0))))
}

fn with_members(nodes: usize, roster: &Roster, members: impl Iterator<Item = (MemberId, u64)>) -> Arc<Electors> {
    Arc::new(Electors::new(nodes, roster.majority(), roster.generation, members.collect()))
}

/// The id that stands for a member at one position, if positions count.
fn member_at(id: MemberId, position: usize) -> MemberId {
    MemberId(id.0 | (position as u128 + 1) << 64)
}

/// Who votes if the client asks the server with this membership, at this position of its list.
pub(super) fn elector(
    setup: &Setup,
    client: &Client,
    membership: &Membership,
    (position, server): (usize, usize),
) -> Option<Elector> {
    let (elector, generation) = (membership.elector()?, client.known_generation);
    Some(match setup.flaw {
        // The list of each client stands for the roster: see `World::new`.
        Some(Flaw::VotesOfListsCount) => Elector { member: member_id(server, 0), generation },
        Some(Flaw::RequestsNameNoRoster) => Elector { generation, ..elector },
        Some(Flaw::CountedBeforeDropped) if elector.generation <= client.view.generation() => {
            Elector { generation: elector.generation.min(generation), ..elector }
        }
        Some(Flaw::PositionsCount) => Elector { member: member_at(elector.member, position), ..elector },
        _ => elector,
    })
}
