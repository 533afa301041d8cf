//! The tree against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::key_tree::KeyTree;
use super::node::{KeyBounds, SlotKeys};

/// Keys by slot, as a plain list.
struct List(Vec<Vec<u8>>);

impl SlotKeys for List {
    fn key(&self, slot: u32) -> &[u8] {
        &self.0[slot as usize]
    }
}

/// Checks the invariants of the module's head; returns the live keys under `node`.
fn check(
    tree: &KeyTree,
    keys: &List,
    node: u32,
    level: usize,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
) -> u64 {
    if level == tree.height {
        let leaf = tree.leaves.get(node);
        for pair in leaf.slots().windows(2) {
            assert!(keys.key(pair[0]) < keys.key(pair[1]));
        }
        for slot in leaf.slots() {
            assert!(low.is_none_or(|low| low <= keys.key(*slot)));
            assert!(high.is_none_or(|high| keys.key(*slot) < high));
        }
        leaf.check(keys);
        return leaf.live_count();
    }
    let inner = tree.inners.get(node);
    assert_eq!(inner.children.len(), inner.counts.len());
    assert_eq!(inner.children.len(), inner.separators.len() + 1);
    for (child, node) in inner.children.iter().enumerate() {
        let low = child.checked_sub(1).map_or(low, |before| Some(inner.separators[before].as_slice()));
        let high = inner.separators.get(child).map_or(high, |separator| Some(separator.as_slice()));
        assert_eq!(inner.counts[child], check(tree, keys, *node, level + 1, low, high));
    }
    inner.live_count()
}

#[derive(Clone, Debug)]
enum TreeStep {
    Insert(Vec<u8>),
    Flip(Vec<u8>),
    Remove(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<TreeStep>> {
    let key = prop_oneof![
        prop::collection::vec(0..4u8, 1..5),
        (0..2000u32).prop_map(|n| format!("/registry/{n:05}").into_bytes()),
    ];
    let step = (0..10u8, key).prop_map(|(kind, key)| match kind {
        0..6 => TreeStep::Insert(key),
        6..7 => TreeStep::Flip(key),
        _ => TreeStep::Remove(key),
    });
    prop::collection::vec(step, 1..3000)
}

fn compare(
    tree: &KeyTree,
    keys: &List,
    model: &BTreeMap<Vec<u8>, (u32, bool)>,
    start: &[u8],
    end: Option<&[u8]>,
) {
    let bounds = KeyBounds { start, end };
    let want: Vec<_> = model
        .range(start.to_vec()..)
        .take_while(|(key, _)| end.is_none_or(|end| key.as_slice() < end))
        .map(|(_, entry)| *entry)
        .collect();
    let got: Vec<_> = tree.walk(keys, &bounds).collect();
    assert_eq!(got, want);
    let mut backwards: Vec<_> = tree.walk(keys, &bounds).rev().collect();
    backwards.reverse();
    assert_eq!(backwards, want);
    let live: Vec<_> = want.iter().filter(|(_, live)| *live).map(|(slot, _)| *slot).collect();
    assert_eq!(tree.walk_live(keys, &bounds).collect::<Vec<_>>(), live);
    assert_eq!(tree.count(keys, &bounds), want.iter().filter(|(_, live)| *live).count() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_as_a_sorted_map_with_counts(steps in steps(), start in prop::collection::vec(0..4u8, 0..4)) {
        let mut keys = List(Vec::new());
        let mut tree = KeyTree::default();
        let mut model: BTreeMap<Vec<u8>, (u32, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                TreeStep::Insert(key) => {
                    let path = tree.seek(&keys, &key);
                    prop_assert_eq!(path.found, model.contains_key(&key));
                    if !path.found {
                        let slot = keys.0.len() as u32;
                        keys.0.push(key.clone());
                        tree.insert(&keys, &path, slot);
                        model.insert(key, (slot, true));
                    }
                }
                TreeStep::Flip(key) => {
                    if let Some((_, live)) = model.get_mut(&key) {
                        *live = !*live;
                        let path = tree.seek(&keys, &key);
                        tree.set_live(&path, *live);
                    }
                }
                TreeStep::Remove(key) => {
                    if let Some((_, live)) = model.remove(&key) {
                        let path = tree.seek(&keys, &key);
                        if live {
                            tree.set_live(&path, false);
                        }
                        tree.remove(&keys, &path);
                    }
                }
            }
        }
        prop_assert_eq!(check(&tree, &keys, tree.root, 0, None, None), tree.live());
        prop_assert_eq!(tree.accounted_bytes(), tree.walk_accounted_bytes());
        compare(&tree, &keys, &model, &[], None);
        compare(&tree, &keys, &model, &start, None);
        compare(&tree, &keys, &model, &start, Some(b"/registry/01000"));
        compare(&tree, &keys, &model, b"/registry/00100", Some(b"/registry/00900"));
        compare(&tree, &keys, &model, b"b", Some(b"a"));

        let sorted: Vec<u32> = model.values().map(|(slot, _)| *slot).collect();
        let live: Vec<u32> = model.values().filter(|(_, live)| *live).map(|(slot, _)| *slot).collect();
        let built = KeyTree::from_sorted(&keys, &sorted, |slot| live.contains(&slot));
        prop_assert_eq!(check(&built, &keys, built.root, 0, None, None), built.live());
        prop_assert_eq!(built.accounted_bytes(), built.walk_accounted_bytes());
        compare(&built, &keys, &model, &start, Some(b"/registry/01000"));
    }
}

#[test]
fn keys_in_order_fill_their_leaves() {
    const KEYS: u32 = 100_000;
    let keys = List((0..KEYS).map(|n| n.to_be_bytes().to_vec()).collect());
    let mut tree = KeyTree::default();
    for slot in 0..KEYS {
        let path = tree.seek(&keys, &keys.0[slot as usize]);
        tree.insert(&keys, &path, slot);
    }
    check(&tree, &keys, tree.root, 0, None, None);
    let leaves = tree.leaves.resident_bytes();
    assert!(leaves < KEYS as usize * 9, "{leaves} bytes: full leaves have 8.3 a key");
}

#[test]
fn a_tree_emptied_from_either_side_works_again() {
    let keys = List((0..5_000u32).map(|n| n.to_be_bytes().to_vec()).collect());
    for backwards in [false, true] {
        let mut tree = KeyTree::default();
        for slot in 0..5_000 {
            let path = tree.seek(&keys, &keys.0[slot as usize]);
            tree.insert(&keys, &path, slot);
        }
        for n in 0..5_000 {
            let slot: u32 = if backwards { 4_999 - n } else { n };
            let path = tree.seek(&keys, &keys.0[slot as usize]);
            tree.set_live(&path, false);
            tree.remove(&keys, &path);
        }
        assert_eq!(tree.walk(&keys, &KeyBounds::ALL).count(), 0);
        assert_eq!(tree.height, 0, "an empty tree is one leaf");
        let path = tree.seek(&keys, &keys.0[7]);
        tree.insert(&keys, &path, 7);
        assert_eq!(tree.walk(&keys, &KeyBounds::ALL).collect::<Vec<_>>(), [(7, true)]);
    }
}
