//! Cycles of imports: for each file that is in one, the shortest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::imports::{Cause, Imports};

/// A cycle as its imports: from, to, why. The first begins at the file with the lowest index.
pub(super) type Cycle = Vec<(usize, usize, Cause)>;

/// For each file that is in a cycle, a shortest one through it; each cycle once, the shortest first.
pub(super) fn shortest(imports: &Imports) -> Vec<Cycle> {
    let cycles: BTreeSet<Vec<usize>> = imports.keys().filter_map(|file| through(*file, imports)).collect();
    let mut cycles: Vec<Vec<usize>> = cycles.into_iter().collect();
    cycles.sort_by_key(Vec::len);
    let with_causes = |files: Vec<usize>| {
        let next = files.iter().cycle().skip(1);
        files.iter().zip(next).map(|(from, to)| (*from, *to, imports[from][to].clone())).collect()
    };
    cycles.into_iter().map(with_causes).collect()
}

/// The files of a shortest cycle through `file`, beginning with the lowest.
fn through(file: usize, imports: &Imports) -> Option<Vec<usize>> {
    // Breadth first: the way by which each file was reached.
    let mut reached_from = BTreeMap::new();
    let mut pending = VecDeque::from([file]);
    while let Some(from) = pending.pop_front() {
        for to in imports.get(&from).into_iter().flat_map(BTreeMap::keys) {
            if *to == file {
                return Some(way_to(from, file, &reached_from));
            }
            if !reached_from.contains_key(to) {
                reached_from.insert(*to, from);
                pending.push_back(*to);
            }
        }
    }
    None
}

fn way_to(last: usize, first: usize, reached_from: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut way = vec![last];
    while let Some(before) = way.last().filter(|file| **file != first).and_then(|file| reached_from.get(file))
    {
        way.push(*before);
    }
    way.reverse();
    let lowest = way.iter().enumerate().min_by_key(|(_, file)| **file).map_or(0, |(index, _)| index);
    way.rotate_left(lowest);
    way
}
