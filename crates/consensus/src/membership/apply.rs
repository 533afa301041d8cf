//! Applies conf changes without a node, by the rules of the raft library.
//!
//! Before a node starts, its owner replays committed entries, and conf changes may be among them
//! ([`ConfState::after`]). Before a leader proposes a conf change, it checks that the change fits ([`check_applies`]).

use raft::storage::MemStorage;
use raft::{Changer, ProgressTracker, RawNode};
use slog::o;

use crate::membership::conf::{ConfChange, ConfState};
use crate::membership::convert::{conf_change_to_raft, conf_state_from_raft, conf_state_to_raft};

impl ConfState {
    /// The configuration after `change`. An error means that the change does not fit this configuration and has no
    /// effect, as on a running node.
    pub fn after(&self, change: &ConfChange) -> Result<ConfState, String> {
        if let Some(flaw) = self.flaw() {
            return Err(flaw.to_owned());
        }
        let storage = MemStorage::new_with_conf_state(conf_state_to_raft(self));
        let logger = slog::Logger::root(slog::Discard, o!());
        // Any id will do: the node never runs.
        let mut node =
            RawNode::new(&raft::Config::new(1), storage, &logger).map_err(|error| error.to_string())?;
        node.apply_conf_change(&conf_change_to_raft(change))
            .map(|conf| conf_state_from_raft(&conf))
            .map_err(|error| error.to_string())
    }
}

/// Whether `change` can be applied to the configuration that `tracker` holds.
pub(crate) fn check_applies(tracker: &ProgressTracker, change: &ConfChange) -> raft::Result<()> {
    let change = conf_change_to_raft(change);
    let mut changer = Changer::new(tracker);
    if change.leave_joint() {
        changer.leave_joint()?;
    } else if let Some(auto_leave) = change.enter_joint() {
        changer.enter_joint(auto_leave, &change.changes)?;
    } else {
        changer.simple(&change.changes)?;
    }
    Ok(())
}
