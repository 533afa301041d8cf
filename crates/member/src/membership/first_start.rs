//! Whether a member without data may begin as one of the first members (`--initial-cluster-state new`), as far as the
//! others say.
//!
//! A member whose directory is lost looks like one that never ran. It has forgotten its votes, and entries that it
//! acknowledged: with a peer that lags it could elect a leader that lacks committed entries.
//!
//! ```text
//! members 1, 2 and 3      1 and 3 commit entry 90, which 2 lacks
//! 3 loses its directory   1 is cut off
//! 3 begins again          2 asks for its vote and gets it: entry 90 is lost
//! ```
//!
//! Each member publishes itself through the log when it has a leader, so a peer that has applied that knows that it was
//! started. A peer that lags does not. If the cluster has begun, so many must be heard that one of them was in the
//! quorum that the publication needed: of three voters both others, of five three. Learners are in no quorum. Members
//! that were added later cannot be asked, since the flags do not name them: never more are needed than can be asked.
//!
//! If no member that answers has seen the cluster begin, this one begins: otherwise no cluster ever would. The
//! handshake is what is left then (`identity`, and the gate of the server).

use std::collections::BTreeMap;

/// The members in the state of one that answers, by their ids.
pub type ListedMembers = BTreeMap<u64, MemberStanding>;

/// What a list of members says of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStanding {
    /// Whether it has published itself.
    pub is_published: bool,
    /// Whether it votes.
    pub is_voter: bool,
}

/// What a member without data is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstStart {
    /// It may begin.
    Begins,
    /// It has been started before: its data is lost.
    WasStarted,
    /// The cluster that the flags name goes on without it.
    WasRemoved,
    /// The cluster has begun, and too few members answer to know whether this one took part.
    Unknown {
        /// Members that answered.
        answered: usize,
        /// Members that must answer.
        needed: usize,
    },
}

impl FirstStart {
    /// What follows from the answers of others of the same cluster id for the member `own_id`, which can ask `others`.
    pub fn of(own_id: u64, others: usize, answers: &[ListedMembers]) -> FirstStart {
        if answers.iter().any(|listed| listed.get(&own_id).is_some_and(|own| own.is_published)) {
            return FirstStart::WasStarted;
        }
        // The cluster id is made of the ids of the first members, so this one was among them.
        if answers.iter().any(|listed| !listed.contains_key(&own_id)) {
            return FirstStart::WasRemoved;
        }
        let has_begun = answers.iter().any(|listed| listed.values().any(|member| member.is_published));
        let voters = |listed: &ListedMembers| listed.values().filter(|member| member.is_voter).count();
        let voters = answers.iter().map(voters).max().unwrap_or(0);
        // A quorum and so many others have a member in common.
        let needed = voters.div_ceil(2).min(others);
        match has_begun && answers.len() < needed {
            true => FirstStart::Unknown { answered: answers.len(), needed },
            false => FirstStart::Begins,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Answers of peers that are current, that lag, and that have not begun either.
    use super::*;

    /// As many as the flags of five members name.
    const OTHERS: usize = 4;

    /// The answer of a member that knows `members` of whom `published` have published themselves.
    fn answer(members: u64, published: &[u64]) -> ListedMembers {
        let standing = |id| MemberStanding { is_published: published.contains(&id), is_voter: true };
        (1..=members).map(|id| (id, standing(id))).collect()
    }

    #[test]
    fn a_cluster_begins_with_whoever_is_there() {
        assert_eq!(FirstStart::of(1, OTHERS, &[]), FirstStart::Begins);
        assert_eq!(
            FirstStart::of(1, OTHERS, &[answer(5, &[])]),
            FirstStart::Begins,
            "it has not begun either"
        );
        let running = [answer(3, &[2, 3]), answer(3, &[2, 3])];
        assert_eq!(FirstStart::of(1, OTHERS, &running), FirstStart::Begins, "it comes later than the others");
    }

    #[test]
    fn a_member_that_one_peer_has_seen_before_does_not_begin() {
        let lagging = answer(3, &[]);
        assert_eq!(FirstStart::of(3, OTHERS, &[lagging, answer(3, &[1, 2, 3])]), FirstStart::WasStarted);
        assert_eq!(FirstStart::of(3, OTHERS, &[answer(2, &[1, 2])]), FirstStart::WasRemoved);
    }

    #[test]
    fn a_quorum_without_this_member_must_have_been_able_to_tell() {
        let unknown = |answered, needed| FirstStart::Unknown { answered, needed };
        assert_eq!(
            FirstStart::of(3, OTHERS, &[answer(3, &[1])]),
            unknown(1, 2),
            "the other one may know more"
        );
        assert_eq!(
            FirstStart::of(2, OTHERS, &[answer(2, &[1])]),
            FirstStart::Begins,
            "member 1 is in each quorum"
        );
        let five = answer(5, &[1]);
        assert_eq!(FirstStart::of(5, OTHERS, &vec![five.clone(); 2]), unknown(2, 3));
        assert_eq!(FirstStart::of(5, OTHERS, &vec![five; 3]), FirstStart::Begins);
        assert_eq!(FirstStart::of(4, OTHERS, &vec![answer(4, &[1]); 2]), FirstStart::Begins);
    }

    #[test]
    fn learners_and_members_that_cannot_be_asked_are_not_waited_for() {
        let mut grown = answer(5, &[1, 2, 4, 5]);
        assert_eq!(FirstStart::of(3, 2, &vec![grown.clone(); 2]), FirstStart::Begins, "all others answer");
        assert_eq!(
            FirstStart::of(3, 2, &[grown.clone()]),
            FirstStart::Unknown { answered: 1, needed: 2 },
            "of the two that can be asked"
        );
        for learner in [2, 4, 5] {
            grown.insert(learner, MemberStanding { is_published: true, is_voter: false });
        }
        assert_eq!(FirstStart::of(3, 2, &[grown]), FirstStart::Begins, "the other voter answers");
    }
}
