//! Random faults: whatever happens, the invariants hold, and when the faults end the cluster goes on.

use consensus::{Change, ConfChange, EntryKind};

use crate::cluster::Cluster;
use crate::rng::seeds;

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
        690..700 if cluster.changes_members => change_members(cluster),
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
        900..940 => {
            let leaders = cluster.leaders_running();
            if !leaders.is_empty() {
                let leader = leaders[cluster.rng.below(leaders.len())];
                cluster.read(leader);
                cluster.start_round(leader);
                cluster.work(leader);
            }
        }
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
        960..963 => ids.iter().filter(|other| **other != id).for_each(|other| {
            cluster.disconnect(id, *other);
            cluster.cut.extend([(id, *other), (*other, id)]);
        }),
        963..965 => cluster.cut.clear(),
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

/// Members there may ever be; ids are never used again.
const MEMBERS_EVER: usize = 9;

/// Proposes to add new members, and to promote, demote or remove old ones.
fn change_members(cluster: &mut Cluster) {
    let Some(leader) = cluster.leader() else { return };
    let conf = cluster.members[&leader].conf_state.clone();
    let present: Vec<u64> = cluster.members.keys().copied().filter(|id| conf.contains(*id)).collect();
    let mut change = ConfChange::default();
    for _ in 0..1 + cluster.rng.below(3) {
        let is_new = cluster.members.len() < MEMBERS_EVER && cluster.rng.chance(40);
        let id = if is_new {
            let id = cluster.members.len() as u64 + 1;
            cluster.join(id);
            id
        } else {
            present[cluster.rng.below(present.len())]
        };
        let kinds = [Change::AddVoter(id), Change::AddLearner(id), Change::Remove(id)];
        change.changes.push(kinds[cluster.rng.below(if is_new { 2 } else { 3 })]);
    }
    let _ = cluster.propose_conf_change(leader, &change);
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

fn repair(cluster: &mut Cluster) {
    cluster.cut.clear();
    for id in cluster.members.keys().copied().collect::<Vec<_>>() {
        if cluster.members[&id].node.is_none() {
            cluster.restart(id);
        }
    }
}

fn settle_and_check(cluster: &mut Cluster) {
    repair(cluster);
    cluster.run(60);
    let leader = cluster.elect();
    let (index, term) = cluster.propose(leader, 8).unwrap();
    cluster.run(60);
    assert_eq!(cluster.committed[&index].term, term, "seed {}", cluster.seed);
    let conf = cluster.members[&leader].conf_state.clone();
    for member in cluster.members.values().filter(|member| conf.contains(member.id)) {
        assert!(member.applied >= index, "seed {}: {} lags at {}", cluster.seed, member.id, member.applied);
        for entry in member.disk.entries.iter().filter(|entry| entry.index <= member.applied) {
            assert_eq!(&cluster.committed[&entry.index], entry, "seed {}", cluster.seed);
        }
    }
}

fn chaos(seed: u64, voters: u64, events: usize, changes_members: bool) -> Cluster {
    let mut cluster = Cluster::new(seed, voters);
    cluster.changes_members = changes_members;
    for _ in 0..events {
        event(&mut cluster);
    }
    settle_and_check(&mut cluster);
    cluster
}

#[test]
fn three_members_survive_anything() {
    let (mut reads, mut snapshots, mut fetches) = (0, 0, 0);
    for seed in seeds(0, 60) {
        let cluster = chaos(seed, 3, 3000, false);
        reads += cluster.reads_served;
        snapshots += cluster.snapshots_installed;
        fetches += cluster.fetches_served;
    }
    assert!(
        reads > 300 && snapshots > 20 && fetches > 5,
        "{reads} reads, {snapshots} snapshots, {fetches} fetches"
    );
}

#[test]
fn changing_members_survive_anything() {
    let mut changes = 0;
    for seed in seeds(1_000_000, 40) {
        let cluster = chaos(seed, 3, 4000, true);
        changes += cluster.committed.values().filter(|entry| entry.kind == EntryKind::ConfChange).count();
    }
    assert!(changes > 60, "{changes} conf changes");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let cluster = chaos(77, 5, 3000, true);
        (
            cluster.committed,
            cluster.members.into_values().map(|member| member.disk.hard_state).collect::<Vec<_>>(),
        )
    };
    assert_eq!(run(), run());
}
