//! Random faults: whatever happens, the invariants hold, and when the faults end the cluster goes on.

use crate::cluster::Cluster;

fn event(cluster: &mut Cluster) {
    let ids: Vec<u64> = cluster.members.keys().copied().collect();
    let id = ids[cluster.rng.below(ids.len())];
    let is_up = cluster.members[&id].node.is_some();
    let dice = cluster.rng.below(1000);
    match dice {
        0..500 => {
            let links = cluster.waiting_links();
            if !links.is_empty() {
                let link = links[cluster.rng.below(links.len())];
                cluster.deliver(link);
            }
        }
        500..700 if is_up => {
            cluster.complete_write(id);
        }
        700..800 if is_up => cluster.tick(id),
        800..900 => {
            let target = cluster.leader().unwrap_or(id);
            if cluster.members[&target].node.is_some() {
                let size = if cluster.rng.chance(5) { 700_000 } else { 16 };
                let _ = cluster.propose(target, size);
            }
        }
        900..940 if is_up => cluster.read(id),
        940..950 if is_up => {
            cluster.members.get_mut(&id).unwrap().checkpoint();
            if cluster.rng.chance(50) {
                truncate(cluster, id);
            }
        }
        950..960 => {
            let other = ids[cluster.rng.below(ids.len())];
            if other != id {
                cluster.disconnect(id, other);
                if cluster.rng.chance(50) {
                    cluster.cut.insert((id, other));
                }
            }
        }
        960..975 => cluster.cut.clear(),
        975..980 if is_up => cluster.crash(id),
        980..990 if !is_up => cluster.restart(id),
        990..993 if is_up => {
            let _ = cluster.node(id).transfer_leader(ids[0]);
            cluster.work(id);
        }
        993..995 if is_up => {
            cluster.node(id).campaign();
            cluster.work(id);
        }
        995..997 if is_up => {
            cluster.node(id).step_down();
            cluster.work(id);
        }
        _ => {}
    }
}

/// Frees the log up to the checkpoint.
fn truncate(cluster: &mut Cluster, id: u64) {
    let member = cluster.members.get_mut(&id).unwrap();
    let index = member.disk.checkpoint.index;
    if index > member.disk.previous.0 && index <= member.applied {
        member.disk.truncate(index);
        cluster.node(id).truncate(index);
    }
}

fn heal(cluster: &mut Cluster) {
    cluster.cut.clear();
    for id in cluster.members.keys().copied().collect::<Vec<_>>() {
        if cluster.members[&id].node.is_none() {
            cluster.restart(id);
        }
    }
}

fn settle_and_check(cluster: &mut Cluster) {
    heal(cluster);
    cluster.run(60);
    let leader = cluster.elect();
    let (index, term) = cluster.propose(leader, 8).unwrap();
    cluster.run(60);
    assert_eq!(cluster.committed[&index].term, term, "seed {}", cluster.seed);
    for member in cluster.members.values() {
        assert!(member.applied >= index, "seed {}: {} lags at {}", cluster.seed, member.id, member.applied);
        for entry in member.disk.entries.iter().filter(|entry| entry.index <= member.applied) {
            assert_eq!(&cluster.committed[&entry.index], entry, "seed {}", cluster.seed);
        }
    }
}

fn chaos(seed: u64, voters: u64, events: usize) -> Cluster {
    let mut cluster = Cluster::new(seed, voters);
    for _ in 0..events {
        event(&mut cluster);
    }
    settle_and_check(&mut cluster);
    cluster
}

#[test]
fn three_members_survive_anything() {
    let (mut reads, mut snapshots, mut fetches) = (0, 0, 0);
    for seed in 0..200 {
        let cluster = chaos(seed, 3, 3000);
        reads += cluster.reads_served;
        snapshots += cluster.snapshots_installed;
        fetches += cluster.fetches_served;
    }
    assert!(
        reads > 1000 && snapshots > 100 && fetches > 100,
        "{reads} reads, {snapshots} snapshots, {fetches} fetches"
    );
}
