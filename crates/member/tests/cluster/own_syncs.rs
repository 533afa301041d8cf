//! When a member's own log had a command on disk, as each member tells its own callers.

use api::etcdserverpb as pb;
use member::batch::CommandKind;
use member::{Input, OwnSync, WaitedCaller};

use crate::rig::{Cluster, STEP_NS};

/// Puts a key at a member, and returns what it says of its caller.
fn put(cluster: &mut Cluster, at: u64) -> WaitedCaller {
    let put = pb::PutRequest { key: "k".into(), ..Default::default() };
    let token = cluster.begin(at, CommandKind::Put, &put);
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&token));
    cluster.waited[&token]
}

#[test]
fn each_member_tells_its_callers_of_the_sync_of_its_own_log() {
    let mut cluster = Cluster::new(3, |_| ());
    let (leader, follower) = (cluster.leader().expect("one leads"), cluster.follower());
    assert_eq!(leader, 1, "a frame to a member that follows it in a step arrives in that step");
    let step = u32::try_from(STEP_NS / 1_000).expect("a short time");
    // A write takes no time here. After its own sync a leader waits a step for the acknowledgement, and a follower for
    // the commit index that comes of its own one.
    let expected = OwnSync { began_us: step, ended_us: step };
    for at in [leader, follower] {
        assert_eq!(put(&mut cluster, at).own_sync, expected, "member {at}");
    }
    let read = cluster.send(follower, |token| Input::Read { token });
    cluster.until("an answer", |cluster| cluster.answers.contains_key(&read));
    assert_eq!(cluster.waited[&read].own_sync, OwnSync::default(), "a read writes nothing");
}
