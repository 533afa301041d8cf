//! Conf changes without a node: before a node starts, its owner replays committed entries, and conf changes may be
//! among them.

use raft::RawNode;
use slog::o;

use crate::terms::Terms;
use crate::view::View;
use crate::{ConfChange, ConfState, convert};

impl ConfState {
    /// The configuration after `change`, by the very rules that a running node follows; an error if it does not fit
    /// and has no effect.
    pub fn after(&self, change: &ConfChange) -> Result<ConfState, String> {
        if let Some(flaw) = self.flaw() {
            return Err(flaw.to_owned());
        }
        let conf = convert::conf_state_to_raft(self);
        let initial = raft::RaftState::new(raft::eraftpb::HardState::default(), conf);
        let view = View::new(initial, Terms::starting_after((0, 0)), Vec::new(), 0);
        let logger = slog::Logger::root(slog::Discard, o!());
        // Any id will do: the node never runs.
        let mut node =
            RawNode::new(&raft::Config::new(1), view, &logger).map_err(|error| error.to_string())?;
        node.apply_conf_change(&convert::conf_change_to_raft(change))
            .map(|conf| convert::conf_state_from_raft(&conf))
            .map_err(|error| error.to_string())
    }
}
