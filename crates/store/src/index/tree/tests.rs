//! The tree against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::gathered_keys::GatheredKeys;
use super::key_tree::KeyTree;
use super::node::KeyBounds;
use super::walk::TreeEntry;

/// Checks the invariants of the module's head; returns the live keys under `node`.
fn check(tree: &KeyTree, node: u32, level: usize, low: Option<&[u8]>, high: Option<&[u8]>) -> u64 {
    if level == tree.height {
        let leaf = tree.leaves.get(node);
        for (at, slot) in leaf.slots().iter().enumerate() {
            assert_eq!(*tree.key(*slot), *leaf.key(at), "the way back leads to the key");
            assert!(tree.is_valid(*slot));
            assert_eq!(tree.key_len(*slot), leaf.key(at).len());
            assert!(low.is_none_or(|low| low <= &*leaf.key(at)));
            assert!(high.is_none_or(|high| &*leaf.key(at) < high));
        }
        leaf.check();
        return leaf.live_count();
    }
    let inner = tree.inners.get(node);
    assert_eq!(inner.children.len(), inner.counts.len());
    assert_eq!(inner.children.len(), inner.separators.len() + 1);
    for (child, node) in inner.children.iter().enumerate() {
        let low = child.checked_sub(1).map_or(low, |before| Some(inner.separators[before].as_slice()));
        let high = inner.separators.get(child).map_or(high, |separator| Some(separator.as_slice()));
        assert_eq!(inner.counts[child], check(tree, *node, level + 1, low, high));
    }
    inner.live_count()
}

#[derive(Clone, Debug)]
enum TreeStep {
    Insert(Vec<u8>),
    Flip(Vec<u8>),
    Remove(Vec<u8>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(0..4u8, 1..5),
        (0..2000u32).prop_map(|n| format!("/registry/{n:05}").into_bytes()),
        // One key the beginning of the next, with zeros, around the length from which on they have their own blocks.
        (0..4u8, 0..270usize).prop_map(|(head, len)| [vec![head; len.min(3)], vec![0; len]].concat()),
        (0..6usize, 0..40u8).prop_map(|(len, n)| [vec![b'p'; 250 + len], vec![n; 3]].concat()),
        (0..3u8, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(n, end)| [vec![n; 40], end].concat()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<TreeStep>> {
    let step = (0..10u8, key()).prop_map(|(kind, key)| match kind {
        0..6 => TreeStep::Insert(key),
        6..7 => TreeStep::Flip(key),
        _ => TreeStep::Remove(key),
    });
    prop::collection::vec(step, 1..3000)
}

fn compare(tree: &KeyTree, model: &BTreeMap<Vec<u8>, (u32, bool)>, start: &[u8], end: Option<&[u8]>) {
    let bounds = KeyBounds { start, end };
    let want: Vec<_> = model
        .range(start.to_vec()..)
        .take_while(|(key, _)| end.is_none_or(|end| key.as_slice() < end))
        .map(|(_, entry)| *entry)
        .collect();
    let seen = |entry: TreeEntry<'_>| {
        assert_eq!(model.get(&*entry.key()).map(|(slot, _)| *slot), Some(entry.slot));
        assert_eq!(entry.key_len(), entry.key().len());
        (entry.slot, entry.is_live)
    };
    let got: Vec<_> = tree.walk(&bounds).map(seen).collect();
    assert_eq!(got, want);
    let mut backwards: Vec<_> = tree.walk(&bounds).rev().map(seen).collect();
    backwards.reverse();
    assert_eq!(backwards, want);
    let live: Vec<_> = want.iter().filter(|(_, live)| *live).map(|(slot, _)| *slot).collect();
    assert_eq!(tree.walk_live(&bounds).collect::<Vec<_>>(), live);
    assert_eq!(tree.count(&bounds), want.iter().filter(|(_, live)| *live).count() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whole_leaves_are_those_of_keys_inserted_in_order(keys in prop::collection::btree_set(key(), 0..1500)) {
        let (mut inserted, mut appended) = (KeyTree::default(), KeyTree::default());
        let mut gathered = GatheredKeys::default();
        let (mut model, mut next) = (BTreeMap::new(), 0);
        for (slot, key) in (0..).zip(keys) {
            let path = inserted.seek(&key);
            inserted.insert(&path, &key, slot);
            if gathered.is_full() {
                appended.append(&mut gathered, next);
                next = slot;
            }
            gathered.push(&key);
            model.insert(key, (slot, true));
        }
        appended.append(&mut gathered, next);
        check(&appended, appended.root, 0, None, None);
        compare(&appended, &model, b"", None);
        prop_assert_eq!(appended.live(), model.len() as u64);
        prop_assert_eq!(appended.height, inserted.height);
        prop_assert_eq!(appended.accounted_bytes(), appended.walk_accounted_bytes());
        // Without the room that insertions leave in the last leaf.
        prop_assert!(appended.accounted_bytes() <= inserted.accounted_bytes());
    }

    #[test]
    fn behaves_as_a_sorted_map_with_counts(steps in steps(), start in prop::collection::vec(0..4u8, 0..4)) {
        let mut slots = 0..;
        let mut tree = KeyTree::default();
        let mut model: BTreeMap<Vec<u8>, (u32, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                TreeStep::Insert(key) => {
                    let path = tree.seek(&key);
                    prop_assert_eq!(path.found, model.contains_key(&key));
                    if !path.found {
                        let slot = slots.next().unwrap();
                        tree.insert(&path, &key, slot);
                        model.insert(key, (slot, true));
                    }
                }
                TreeStep::Flip(key) => {
                    if let Some((_, live)) = model.get_mut(&key) {
                        *live = !*live;
                        let path = tree.seek(&key);
                        tree.set_live(&path, *live);
                    }
                }
                TreeStep::Remove(key) => {
                    if let Some((_, live)) = model.remove(&key) {
                        let path = tree.seek(&key);
                        if live {
                            tree.set_live(&path, false);
                        }
                        let slot = tree.slot_at(&path);
                        tree.remove(&path);
                        prop_assert!(!tree.is_valid(slot));
                    }
                }
            }
        }
        prop_assert_eq!(check(&tree, tree.root, 0, None, None), tree.live());
        prop_assert_eq!(tree.accounted_bytes(), tree.walk_accounted_bytes());
        compare(&tree, &model, &[], None);
        compare(&tree, &model, &start, None);
        compare(&tree, &model, &start, Some(b"/registry/01000"));
        compare(&tree, &model, b"/registry/00100", Some(b"/registry/00900"));
        compare(&tree, &model, b"b", Some(b"a"));

        let live: Vec<u32> = model.values().filter(|(_, live)| *live).map(|(slot, _)| *slot).collect();
        tree.set_all_live(&|slot| !live.contains(&slot));
        tree.set_all_live(&|slot| live.contains(&slot));
        prop_assert_eq!(check(&tree, tree.root, 0, None, None), live.len() as u64);
        compare(&tree, &model, &start, Some(b"/registry/01000"));
    }
}

/// Inserts keys with the slots 0, 1, and so on.
fn filled(keys: impl Iterator<Item = Vec<u8>>) -> KeyTree {
    let mut tree = KeyTree::default();
    for (slot, key) in keys.enumerate() {
        let path = tree.seek(&key);
        tree.insert(&path, &key, slot as u32);
    }
    tree
}

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

#[test]
fn keys_in_order_fill_their_leaves() {
    const KEYS: u32 = 100_000;
    let tree = filled((0..KEYS).map(number));
    check(&tree, tree.root, 0, None, None);
    let leaves = tree.leaves.resident_bytes();
    assert!(leaves < KEYS as usize * 21 / 2, "{leaves} bytes: full leaves have 10.1 a key");
}

/// A megabyte is not moved when its neighbours are, and not copied when a leaf is split.
#[test]
fn long_keys_have_their_own_blocks() {
    const KEYS: u32 = 300;
    let long = |n: u32| [vec![b'k'; 300], number(n), vec![0; 9_696]].concat();
    let mut tree = filled((0..KEYS).rev().map(long));
    check(&tree, tree.root, 0, None, None);
    let per_key = tree.accounted_bytes() / KEYS as usize;
    assert!(per_key < 10_000 + 110, "{per_key} bytes: the key once, its block, its place in a leaf");
    for n in 0..KEYS {
        let path = tree.seek(&long(n));
        assert_eq!(tree.slot_at(&path), KEYS - 1 - n);
        tree.set_live(&path, false);
        tree.remove(&path);
    }
    assert_eq!(tree.accounted_bytes(), tree.walk_accounted_bytes());
    assert!(tree.accounted_bytes() < 1_000, "what long keys took is given back");
}

#[test]
fn a_tree_emptied_from_either_side_works_again() {
    for backwards in [false, true] {
        let mut tree = filled((0..5_000).map(number));
        for n in 0..5_000 {
            let slot: u32 = if backwards { 4_999 - n } else { n };
            let path = tree.seek(&number(slot));
            tree.set_live(&path, false);
            tree.remove(&path);
        }
        assert_eq!(tree.walk(&KeyBounds::ALL).count(), 0);
        assert_eq!(tree.height, 0, "an empty tree is one leaf");
        let path = tree.seek(&number(7));
        tree.insert(&path, &number(7), 7);
        let all = tree.walk(&KeyBounds::ALL).map(|entry| (entry.slot, entry.is_live));
        assert_eq!(all.collect::<Vec<_>>(), [(7, true)]);
    }
}
