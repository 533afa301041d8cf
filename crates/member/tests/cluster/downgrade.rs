//! A downgrade is part of the replicated state, and the cluster version follows it.

use api::membershippb::DowngradeInfoSetRequest;
use member::batch::CommandKind;
use member::{MemberConfig, MembershipSettings};

use crate::rig::Cluster;

fn set(cluster: &mut Cluster, at: u64, target: Option<&str>) -> store::Outcome {
    let request =
        DowngradeInfoSetRequest { enabled: target.is_some(), ver: target.unwrap_or_default().to_owned() };
    cluster.propose(at, CommandKind::DowngradeInfo, &request)
}

/// Waits until all members have this cluster version and this target.
fn expect(cluster: &mut Cluster, version: &str, target: Option<&str>) {
    cluster.until("the version is set", |cluster| {
        cluster.nodes.values().all(|node| {
            let reader = &node.opened.reader;
            reader.cluster_version().as_deref() == Some(version)
                && reader.downgrade_target().as_deref() == target
        })
    });
    cluster.settle();
    cluster.assert_equal();
}

#[test]
fn the_cluster_version_follows_a_downgrade_until_it_is_cancelled() {
    let mut cluster = Cluster::new(3, |_| {});
    expect(&mut cluster, "3.7.0", None);
    let follower = cluster.follower();
    set(&mut cluster, follower, Some("3.6.0")).expect("it is applied");
    expect(&mut cluster, "3.6.0", Some("3.6.0"));
    // In the log, then in checkpoints, then in a snapshot.
    (1..=3).for_each(|id| cluster.stop(id));
    (1..=3).for_each(|id| cluster.start(id));
    expect(&mut cluster, "3.6.0", Some("3.6.0"));
    let behind = cluster.follower();
    cluster.stop(behind);
    (0..200).for_each(|n| cluster.put(&format!("key{n}"), vec![7; 300]));
    cluster.start(behind);
    expect(&mut cluster, "3.6.0", Some("3.6.0"));
    set(&mut cluster, behind, None).expect("it is applied");
    expect(&mut cluster, "3.7.0", None);
}

#[test]
fn a_cluster_with_a_member_of_an_older_release_has_no_downgrades() {
    fn old(config: &mut MemberConfig) {
        config.membership = MembershipSettings { command_set: 2, ..MembershipSettings::default() };
    }
    let mut cluster = Cluster::new(3, old);
    cluster.tune = |_| {};
    for id in [1, 2] {
        cluster.stop(id);
        cluster.start(id);
        cluster.settle();
    }
    assert_eq!(set(&mut cluster, 1, Some("3.6.0")), Err(api::Error::NotCapable));
    cluster.stop(3);
    cluster.start(3);
    cluster.until("the command set is recorded", |cluster| {
        cluster.nodes.values().all(|node| node.opened.reader.command_set() == member::NEWEST_COMMAND_SET)
    });
    set(&mut cluster, 1, Some("3.6.0")).expect("now it can be applied");
    expect(&mut cluster, "3.6.0", Some("3.6.0"));
}
