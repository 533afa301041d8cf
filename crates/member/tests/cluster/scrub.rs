//! Damage in files that no client and no follower reads is found and repaired.

use member::{Notice, ScrubRate};

use crate::rig::Cluster;

const SECOND_NS: u64 = 1_000_000_000;

fn scrubbing(size: u64) -> Cluster {
    Cluster::new(size, |config| {
        config.scrub = ScrubRate {
            bytes_per_second: 1 << 20,
            disk_time_part: 2,
            max_stall_pause_ns: SECOND_NS,
            first_after_ns: SECOND_NS,
            round_ns: 2 * SECOND_NS,
        };
    })
}

fn fill(cluster: &mut Cluster) {
    for number in 0..120 {
        cluster.put(&format!("key{number}"), vec![number as u8; 300]);
    }
    cluster.settle();
}

fn rounds(cluster: &Cluster, at: u64) -> u64 {
    cluster.nodes[&at].opened.member.status().scrub_rounds()
}

/// Waits for a round that begins from now on.
fn scrub(cluster: &mut Cluster, at: u64) {
    let before = rounds(cluster, at);
    cluster.until("two rounds end", |cluster| rounds(cluster, at) >= before + 2);
    cluster.settle();
}

fn repaired(cluster: &Cluster, at: u64) -> usize {
    cluster.nodes[&at].notices.iter().filter(|notice| matches!(notice, Notice::Repaired { .. })).count()
}

#[test]
fn a_damaged_value_is_repaired_before_it_is_read() {
    let mut cluster = scrubbing(3);
    fill(&mut cluster);
    for at in [1, 3] {
        cluster.damage(at, "key7");
    }
    scrub(&mut cluster, 1);
    scrub(&mut cluster, 3);
    assert!(repaired(&cluster, 1) >= 1 && repaired(&cluster, 3) >= 1);
    assert_eq!(repaired(&cluster, 2), 0);
    // Nothing but this member's own disk is left to read from.
    cluster.stop(2);
    cluster.stop(3);
    assert_eq!(cluster.get(1, "key7"), Ok(Some(vec![7; 300].into())));
}

#[test]
fn intact_files_are_read_and_left_alone() {
    let mut cluster = scrubbing(3);
    fill(&mut cluster);
    scrub(&mut cluster, 2);
    let node = &cluster.nodes[&2];
    assert!(node.opened.member.status().scrubbed_bytes() >= 120 * 300);
    assert!(
        !node.notices.iter().any(|notice| matches!(notice, Notice::Damage { .. } | Notice::Repaired { .. }))
    );
    cluster.assert_equal();
}

/// A damaged checkpoint would refuse the next start. The state is in memory: a new base takes its place.
#[test]
fn a_damaged_checkpoint_is_replaced_before_it_is_read() {
    let mut cluster = scrubbing(1);
    fill(&mut cluster);
    let checkpoint = |cluster: &Cluster| cluster.checkpoint_files(1).remove(0);
    let base = checkpoint(&cluster);
    assert!(base.to_string_lossy().ends_with(".base"));
    cluster.disks[&1].flip_bit(&base, 200, 3).expect("it can be written");
    scrub(&mut cluster, 1);
    let damage = |notice: &Notice| matches!(notice, Notice::Damage { text } if text.contains("checkpoint"));
    assert!(cluster.nodes[&1].notices.iter().any(damage), "{:?}", cluster.nodes[&1].notices);
    assert_eq!(repaired(&cluster, 1), 1);
    assert_ne!(checkpoint(&cluster), base);
    cluster.stop(1);
    cluster.start(1);
    cluster.settle();
    assert_eq!(cluster.get(1, "key7"), Ok(Some(vec![7; 300].into())));
}
