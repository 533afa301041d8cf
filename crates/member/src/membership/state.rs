//! What a member keeps about changes of membership, besides what is replicated.

use std::collections::BTreeMap;

use super::command_sets::CommandSets;
use super::queue::MembershipQueue;

/// What a member keeps about changes of membership.
#[derive(Debug)]
pub(crate) struct MembershipState {
    pub(crate) queue: MembershipQueue,
    pub(crate) command_sets: CommandSets,
    /// Since when peers are connected.
    pub(crate) up_since_ns: BTreeMap<u64, u64>,
    /// Peers that this member's state does not name yet, or names with other URLs, and the URLs that they gave.
    pub(crate) introduced: BTreeMap<u64, Vec<String>>,
    /// What [`crate::io::Output::membership`] said is not true any more.
    pub(crate) is_changed: bool,
    /// The last term in which this member, as its leader, transferred leadership before its own removal.
    pub(crate) handed_over_in: u64,
    /// Ticks until this member stops, once its removal is applied.
    pub(crate) leaving_ticks: Option<u32>,
    /// Peers that were removed: their URLs, and the ticks for which the streams to them stay.
    pub(crate) parting: BTreeMap<u64, (Vec<String>, u32)>,
}

impl MembershipState {
    /// The peers that part, and their URLs.
    pub(crate) fn parting_peers(&self) -> Vec<(u64, Vec<String>)> {
        self.parting.iter().map(|(id, (urls, _))| (*id, urls.clone())).collect()
    }
}

impl Default for MembershipState {
    fn default() -> MembershipState {
        MembershipState {
            queue: MembershipQueue::default(),
            command_sets: CommandSets::default(),
            up_since_ns: BTreeMap::new(),
            introduced: BTreeMap::new(),
            // Nothing was said yet.
            is_changed: true,
            handed_over_in: 0,
            leaving_ticks: None,
            parting: BTreeMap::new(),
        }
    }
}
