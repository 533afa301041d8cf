//! Conversion of configurations and their changes to and from the raft library's types.
//!
//! The payload of a conf change (our format) lies in the `context` of the library's entry, which the library carries
//! but never reads. The library parses protobuf from `data` only. `data` is filled only in a proposal, with bytes made
//! here, so no byte of a peer or a file reaches that parser.

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb;

use crate::membership::conf::{Change, ConfChange, ConfState, Transition};

/// The entry that proposes a conf change.
pub(crate) fn conf_change_proposal(change: &ConfChange) -> eraftpb::Entry {
    let data = conf_change_to_raft(change).write_to_bytes().expect("a message in memory can be written");
    eraftpb::Entry {
        entry_type: eraftpb::EntryType::EntryConfChangeV2,
        data: Bytes::from(data),
        context: change.encode(),
        ..Default::default()
    }
}

pub(crate) fn conf_change_to_raft(change: &ConfChange) -> eraftpb::ConfChangeV2 {
    let mut out = eraftpb::ConfChangeV2::default();
    out.set_transition(match change.transition {
        Transition::Auto => eraftpb::ConfChangeTransition::Auto,
        Transition::JointAutoLeave => eraftpb::ConfChangeTransition::Implicit,
        Transition::JointExplicit => eraftpb::ConfChangeTransition::Explicit,
    });
    for change in &change.changes {
        out.mut_changes().push(eraftpb::ConfChangeSingle {
            node_id: change.id(),
            change_type: match change {
                Change::AddVoter(_) => eraftpb::ConfChangeType::AddNode,
                Change::AddLearner(_) => eraftpb::ConfChangeType::AddLearnerNode,
                Change::Remove(_) => eraftpb::ConfChangeType::RemoveNode,
            },
            ..Default::default()
        });
    }
    out
}

pub(crate) fn conf_state_to_raft(conf: &ConfState) -> eraftpb::ConfState {
    eraftpb::ConfState {
        voters: conf.voters.clone(),
        voters_outgoing: conf.voters_outgoing.clone(),
        learners: conf.learners.clone(),
        learners_next: conf.learners_next.clone(),
        auto_leave: conf.auto_leave,
        ..Default::default()
    }
}

/// Sorted: the library's lists are in the order of a hash map.
pub(crate) fn conf_state_from_raft(conf: &eraftpb::ConfState) -> ConfState {
    let sorted = |ids: &[u64]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids
    };
    ConfState {
        voters: sorted(conf.get_voters()),
        voters_outgoing: sorted(conf.get_voters_outgoing()),
        learners: sorted(conf.get_learners()),
        learners_next: sorted(conf.get_learners_next()),
        auto_leave: conf.auto_leave,
    }
}
