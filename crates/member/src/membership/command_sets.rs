//! Which commands may be proposed: those that every member can apply.
//!
//! A *command set* is a version of the commands and conf changes that may be in the log. The cluster records the
//! newest one that all members can apply, learners included, in its replicated state, and it never falls. A member
//! announces in its handshakes which one it can apply. While the recorded one is older than its own, the leader
//! looks at each tick whether all members have announced a newer one, and records it with a command of that set:
//!
//! ```text
//! members 1, 2, 3 run a release with set 2; the state says 1
//!   1 leads, connected: 2 (announced 2)              3 is down: nothing
//!   3 is back, announced 2                           command "set 2" is proposed; from its entry on set 2 may be used
//! ```
//!
//! A new cluster begins with the newest set of the release that starts it. A member that cannot apply the recorded set
//! is refused in the handshake; one that meets a batch or a conf change of a newer set stops instead of guessing.

use std::collections::BTreeMap;

/// The newest set of commands that this release can apply: 2 has changes of membership, and the command that records a
/// set; 3 has users and roles; 4 has downgrades.
pub const NEWEST_COMMAND_SET: u8 = 4;

/// The first set with changes of membership.
pub(crate) const WITH_MEMBERSHIP: u8 = 2;

/// The first set with users and roles.
pub const WITH_AUTH: u8 = 3;

/// What peers have announced, and when this member last proposed to record it.
#[derive(Debug, Default)]
pub(crate) struct CommandSets {
    announced: BTreeMap<u64, u8>,
    proposed_at_ns: Option<u64>,
}

impl CommandSets {
    /// A peer can apply this set, by its last handshake.
    pub(crate) fn announced(&mut self, peer: u64, set: u8) {
        self.announced.insert(peer, set);
    }

    /// Forgets the peers that are no members any more.
    pub(crate) fn retain(&mut self, is_member: impl Fn(u64) -> bool) {
        self.announced.retain(|peer, _| is_member(*peer));
    }

    /// The set to record now, if all `members` can apply a newer one than `recorded`. `own` is what this member, with
    /// the id `own_id`, can apply; `is_connected` tells of a peer. It is proposed again after `again_ns`.
    pub(crate) fn take_newer(
        &mut self,
        (now_ns, again_ns): (u64, u64),
        recorded: u8,
        (own_id, own): (u64, u8),
        members: impl Iterator<Item = u64>,
        is_connected: impl Fn(u64) -> bool,
    ) -> Option<u8> {
        if recorded >= own || self.proposed_at_ns.is_some_and(|at_ns| now_ns < at_ns + again_ns) {
            return None;
        }
        let known = |id: u64| match self.announced.get(&id) {
            _ if id == own_id => own,
            Some(set) if is_connected(id) => *set,
            _ => recorded,
        };
        let newest = members.map(known).min().filter(|set| *set > recorded)?;
        self.proposed_at_ns = Some(now_ns);
        Some(newest)
    }
}
