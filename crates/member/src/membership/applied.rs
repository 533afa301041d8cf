//! What an applied conf change does: to the members in the store and to the configuration, or to neither.

use std::sync::Arc;

use api::Error;
use consensus::{ConfChange, ConfState, Entry, Transition};
use store::{AppliedId, ClusterMember, Reader, Store};

use super::request::{MembershipRequest, ProposedChange};
use super::rules::{self, MembersNow};

/// Members and configuration after an applied entry. Everything that depends on who belongs to the cluster follows
/// this, at the start, after a conf change and after an installed snapshot alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The members, by id. Those of a member that joins are what it was told, until it has received a snapshot.
    pub members: Vec<ClusterMember>,
    /// Peers that the state does not name yet, or names with other URLs, and the URLs that they gave: this member lags
    /// behind them.
    pub introduced: Vec<(u64, Vec<String>)>,
    /// Peers that were removed a moment ago, and their URLs. The streams to them stay for now, because their callers
    /// wait for what becomes of the commands that they forwarded.
    pub parting: Vec<(u64, Vec<String>)>,
    /// Voters and learners; empty for a member that joins and has not received a snapshot yet.
    pub conf_state: ConfState,
    /// The newest set of commands that all of them can apply.
    pub command_set: u8,
    /// Whether this member itself was removed.
    pub is_removed: bool,
}

impl Membership {
    /// The membership that `reader`'s state and the configuration amount to; besides, the peers that were introduced,
    /// and those that part.
    ///
    /// # Panics
    /// When the two do not name the same members.
    pub(crate) fn of(
        own_id: u64,
        reader: &Reader,
        conf_state: ConfState,
        (introduced, parting): (Vec<(u64, Vec<String>)>, Vec<(u64, Vec<String>)>),
    ) -> Arc<Membership> {
        let members = reader.members();
        let is_joining = conf_state == ConfState::default();
        let is_role = |member: &ClusterMember| match member.learner {
            true => conf_state.learners.contains(&member.id),
            false => conf_state.voters.contains(&member.id),
        };
        let count = conf_state.voters.len() + conf_state.learners.len();
        assert!(
            is_joining || (members.iter().all(is_role) && members.len() == count),
            "members {members:?} are those of the configuration {conf_state:?}"
        );
        let (command_set, is_removed) = (reader.command_set(), reader.was_removed(own_id));
        Arc::new(Membership { members, introduced, parting, conf_state, command_set, is_removed })
    }
}

/// What a committed conf change asks for.
#[derive(Clone)]
pub(crate) struct DecodedChange {
    pub(crate) change: ConfChange,
    /// `None`: it has no effect.
    pub(crate) proposed: Option<ProposedChange>,
}

impl DecodedChange {
    /// Whether the change is the one that its request stands for. A sound leader proposes no other.
    fn is_consistent(&self, request: &MembershipRequest, conf: &ConfState) -> bool {
        let expected = rules::conf_change_of(request, conf);
        self.change.transition == Transition::Auto && self.change.changes == [expected]
    }
}

/// Decodes the payload of a conf change. Bytes that no release writes have no effect, on all members alike.
///
/// # Errors
/// It was made by a release that this one cannot follow.
pub(crate) fn decode(entry: &Entry) -> Result<DecodedChange, String> {
    let newer = |what: &str, version: u8| {
        format!("{what} version {version} is not known here (known: 1); run a release that knows it")
    };
    let change = ConfChange::decode(entry.payload.clone()).map_err(|error| error.to_string())?;
    let proposed =
        ProposedChange::decode(&change.context).map_err(|version| newer("conf change", version))?;
    Ok(DecodedChange { change, proposed })
}

/// Applies a conf change to the members in the store, if it has an effect. Then, and only then, the configuration after
/// it is in force.
///
/// # Errors
/// Why it has none; the entry counts as applied.
pub(crate) fn apply(
    store: &mut Store,
    entry: &Entry,
    conf: &ConfState,
    decoded: &DecodedChange,
) -> Result<(), Error> {
    let (id, reader) = (AppliedId { index: entry.index, term: entry.term }, store.reader());
    let proposed =
        decoded.proposed.as_ref().filter(|proposed| decoded.is_consistent(&proposed.request, conf));
    let Some(ProposedChange { max_learners, request, .. }) = proposed.cloned() else {
        store.apply_empty(id);
        return Err(Error::NotCapable);
    };
    let members = reader.members();
    let now = MembersNow { members: &members, conf, max_learners };
    if let Err(error) = rules::check(&request, &now, reader.was_removed(request.id())) {
        store.apply_empty(id);
        return Err(error);
    }
    store.apply_member_change(id, rules::member_change_of(request))
}
