//! The index of entries against a plain list.

use proptest::prelude::*;

use super::EntryIndex;
use crate::types::LogId;

#[derive(Debug, Clone)]
enum Step {
    Push { new_term: bool },
    CutAbove(usize),
    CutBelow(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(|new_term| Step::Push { new_term }),
        1 => (0..8_usize).prop_map(Step::CutAbove),
        1 => (0..8_usize).prop_map(Step::CutBelow),
    ]
}

proptest! {
    #[test]
    fn the_index_agrees_with_a_plain_list(steps in prop::collection::vec(step(), 0..60)) {
        let mut index = EntryIndex::new(LogId { index: 10, term: 2 });
        // The base and all entries after it: term, place, length.
        let mut list = vec![(2_u64, 0_u64, 0_u32)];
        let mut base = 10_u64;
        for (at, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push { new_term } => {
                    let last = list.last().expect("there is a base").0;
                    let (term, address) = (last + u64::from(new_term), at as u64 * 8);
                    index.push(LogId { index: base + list.len() as u64, term }, address, at as u32);
                    list.push((term, address, at as u32));
                }
                Step::CutAbove(kept) => {
                    let kept = kept.min(list.len() - 1);
                    index.cut_above(base + kept as u64);
                    list.truncate(kept + 1);
                }
                Step::CutBelow(gone) => {
                    index.cut_below(base + gone as u64);
                    let gone = gone.min(list.len() - 1);
                    list.drain(..gone);
                    base += gone as u64;
                }
            }
            let last = base + list.len() as u64 - 1;
            let term = list.last().expect("there is a base").0;
            prop_assert_eq!(index.base(), LogId { index: base, term: list[0].0 });
            prop_assert_eq!(index.last(), LogId { index: last, term });
            for asked in base.saturating_sub(2)..last + 3 {
                let known = asked.checked_sub(base).and_then(|at| list.get(at as usize));
                prop_assert_eq!(index.term(asked), known.map(|entry| entry.0));
                let address = known.filter(|_| asked > base).map(|entry| (entry.1, entry.2));
                prop_assert_eq!(index.address(asked), address);
            }
        }
    }
}
