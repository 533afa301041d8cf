//! Renewals at a follower: many on their way to the leader at once.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::peer_message::LeaseAnswer;
use member::{Answer, Input};

use crate::rig::Cluster;

/// Renewals that wait at once: as many as a client with that many leases sends.
const RENEWALS: usize = 10_000;

/// Steps that a renewal may take: to the leader, to a quorum and back, then to the follower, and one more.
const MAX_STEPS: usize = 6;

#[test]
fn thousands_of_renewals_at_a_follower_travel_together() {
    let mut cluster = Cluster::new(3, |_| {});
    let (leader, follower) = (cluster.leader().expect("there is a leader"), cluster.follower());
    let grant = pb::LeaseGrantRequest { id: 7, ttl: 60 };
    cluster.propose(leader, CommandKind::LeaseGrant, &grant).expect("a grant is applied");
    cluster.settle();
    let renew = |token| Input::Lease { token, lease: 7, renew: true };
    let tokens: Vec<u64> = (0..RENEWALS).map(|_| cluster.send(follower, renew)).collect();
    cluster.run(MAX_STEPS);
    for token in tokens {
        let answer = cluster.answers.remove(&token);
        assert!(
            matches!(answer, Some(Answer::Lease(LeaseAnswer::Alive { granted_s: 60, .. }))),
            "{answer:?} after {MAX_STEPS} steps"
        );
    }
}
