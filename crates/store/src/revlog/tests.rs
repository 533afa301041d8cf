//! The revision log against a list.

use proptest::prelude::*;

use super::*;

fn entry(main: i64, sub: u32, slot: u32) -> Entry {
    Entry { revision: Revision { main, sub }, slot: Some(slot) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_as_a_list(sizes in prop::collection::vec(prop_oneof![9 => 1..4u32, 1 => 1..3000u32], 1..800),
                         popped in 0..4000usize, froms in prop::collection::vec(0..1000i64, 8)) {
        let mut log = RevisionLog::default();
        let mut model = Vec::new();
        for (main, size) in sizes.iter().enumerate() {
            for sub in 0..*size {
                let slot = model.len() as u32;
                log.push(Revision { main: main as i64 + 2, sub }, slot);
                model.push(entry(main as i64 + 2, sub, slot));
            }
        }
        let popped = popped.min(model.len());
        for _ in 0..popped {
            log.pop_front();
        }
        model.drain(..popped);
        prop_assert_eq!(log.len(), model.len());
        prop_assert_eq!(log.front(), model.first().copied());
        for from in froms {
            let want: Vec<_> = model.iter().filter(|entry| entry.revision.main >= from).copied().collect();
            prop_assert_eq!(log.len_from(from), want.len());
            prop_assert_eq!(log.iter_from(from).collect::<Vec<_>>(), want.clone());
            for at in [want.len() / 2, want.len() / 7] {
                if let Some(entry) = want.get(at) {
                    prop_assert_eq!(log.iter_at(entry.revision).collect::<Vec<_>>(), want[at..].to_vec());
                }
            }
        }
        let last = model.last().map_or(2 + sizes.len() as i64 - 1, |entry| entry.revision.main);
        log.push(Revision { main: last + 1, sub: 0 }, 7);
        prop_assert_eq!(log.iter_from(last + 1).collect::<Vec<_>>(), [entry(last + 1, 0, 7)]);
    }
}

#[test]
fn unknown_changes_leave_gaps() {
    let mut log = RevisionLog::default();
    log.push_after_gaps(Revision { main: 5, sub: 1 }, 1);
    log.push_after_gaps(Revision { main: 8, sub: 0 }, 2);
    let got: Vec<_> =
        log.iter_from(0).map(|entry| (entry.revision.main, entry.revision.sub, entry.slot)).collect();
    assert_eq!(got, [(5, 0, None), (5, 1, Some(1)), (6, 0, None), (7, 0, None), (8, 0, Some(2))]);
}
