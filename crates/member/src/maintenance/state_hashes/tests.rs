//! What is compared, what is sent, and who is named.
use super::*;

#[test]
fn only_a_different_hash_at_a_known_index_is_a_difference() {
    let mut hashes = StateHashes::default();
    assert_eq!(hashes.take_unsent(), None);
    (1..=MAX_REMEMBERED as u64 + 1).for_each(|index| hashes.remember(index, 10 * index));
    assert!(hashes.compare(3, 2, 21));
    assert!(!hashes.compare(4, 2, 20));
    assert!(!hashes.compare(5, 1, 11), "forgotten");
    assert!(!hashes.compare(6, 5_000, 1), "not applied here yet");
    assert_eq!(hashes.take_unsent(), Some((1_001, 10_010)));
    assert_eq!(hashes.take_unsent(), None, "sent once");
}

/// Each of the members applies entries 1 to 3. At index 2 and 3 it has the hash that is given for it, and the
/// first one leads. Returns the alarms after so many ticks.
fn alarms(hashes: &[u64], voters: u64, ticks: u32) -> BTreeSet<u64> {
    let voters: BTreeSet<u64> = (1..=voters).collect();
    let mut raised = BTreeSet::new();
    let mut members: BTreeMap<u64, StateHashes> = (1..).zip(hashes.iter().map(|_| <_>::default())).collect();
    for (member, hash) in members.values_mut().zip(hashes) {
        [(1, 10), (2, *hash), (3, *hash)].into_iter().for_each(|(index, hash)| member.remember(index, hash));
    }
    for tick in 0..ticks {
        // Members are not equally fast: what is sent differs in index.
        for (from, hash) in (1..).zip(hashes) {
            let index = 2 + (u64::from(tick) + from) % 2;
            for (_, member) in members.iter_mut().filter(|(id, _)| **id != from) {
                member.compare(from, index, *hash);
            }
        }
        let before = raised.clone();
        for (id, member) in &mut members {
            raised.extend(member.judge(*id, &voters, *id == 1, &before));
        }
    }
    raised
}

#[test]
fn the_members_that_differ_from_a_quorum_are_named_and_otherwise_none() {
    let long = 2 * MAX_UNJUDGED_TICKS;
    for (hashes, expected) in [
        (&[7, 7, 7][..], &[][..]),
        (&[7, 8, 7], &[2]),
        (&[8, 7, 7], &[1]),
        (&[8, 7], &[NO_MEMBER]),
        (&[7, 8, 9], &[NO_MEMBER]),
        (&[8, 9, 7, 7, 7], &[1, 2]),
        (&[8, 8, 7, 7], &[NO_MEMBER]),
        (&[7, 8, 8, 7, 7], &[2, 3]),
    ] {
        let found = alarms(hashes, hashes.len() as u64, long);
        assert_eq!(found, expected.iter().copied().collect(), "{hashes:?}");
    }
    assert_eq!(alarms(&[8, 7, 7], 3, 3), BTreeSet::from([1]), "at once");
    assert_eq!(alarms(&[8, 7], 2, MAX_UNJUDGED_TICKS - 1), BTreeSet::new(), "the others may know");
}

#[test]
fn learners_do_not_count_and_are_named() {
    let long = 2 * MAX_UNJUDGED_TICKS;
    assert_eq!(alarms(&[7, 7, 7, 8], 3, long), BTreeSet::from([4]));
    assert_eq!(alarms(&[7, 8, 8], 1, long), BTreeSet::from([2, 3]));
    assert_eq!(alarms(&[8, 7, 7, 7], 2, long), BTreeSet::from([NO_MEMBER]));
}

#[test]
fn who_was_equal_before_the_difference_is_not_counted() {
    let mut hashes = StateHashes::default();
    (1..=3).for_each(|index| hashes.remember(index, 7));
    let voters = BTreeSet::from([1, 2, 3]);
    hashes.compare(3, 1, 7);
    hashes.compare(2, 2, 8);
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::new());
    hashes.compare(3, 2, 7);
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::from([2]));
}

#[test]
fn a_difference_is_news_until_it_is_gone_and_is_judged_until_the_alarm_is_raised() {
    let mut hashes = StateHashes::default();
    (1..=4).for_each(|index| hashes.remember(index, 7));
    assert!(!hashes.compare(2, 9, 8), "not applied here yet");
    assert!(hashes.compare(2, 1, 8) && !hashes.compare(2, 2, 8));
    let (one, raised) = (BTreeSet::from([1]), BTreeSet::from([2]));
    assert_eq!(hashes.judge(1, &one, true, &BTreeSet::new()), raised);
    assert_eq!(hashes.judge(1, &one, true, &BTreeSet::new()), raised, "it was not raised yet");
    assert_eq!(hashes.judge(1, &one, true, &raised), BTreeSet::new());
    assert!(!hashes.has_unjudged(), "a disarmed alarm is not raised for what was seen before");
    assert!(!hashes.compare(2, 3, 8) && hashes.has_unjudged(), "but for what is seen after");
    assert!(!hashes.compare(2, 3, 7) && hashes.compare(2, 4, 8), "it was equal in between");
    hashes.forget(2);
    assert!(!hashes.has_unjudged() && hashes.compare(2, 4, 8));
}

#[test]
fn a_hash_that_comes_before_its_index_is_applied_is_compared_afterwards() {
    let mut hashes = StateHashes::default();
    let voters = BTreeSet::from([1, 2, 3]);
    hashes.remember(1, 7);
    assert!(!hashes.compare(2, 3, 8) && !hashes.compare(3, 2, 7));
    assert!(!hashes.compare(2, 5, 7), "the first that came too early is kept");
    hashes.remember(2, 7);
    assert_eq!(hashes.compare_early(), []);
    assert!(!hashes.compare(2, 2, 7), "it was equal before");
    hashes.remember(3, 7);
    assert_eq!(hashes.compare_early(), [(2, 3)]);
    assert_eq!(hashes.compare_early(), [], "compared once");
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::new(), "3 was equal before");
    hashes.compare(3, 4, 7);
    hashes.remember(4, 7);
    assert_eq!(hashes.compare_early(), []);
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::from([2]));
    // A snapshot skipped the index.
    hashes.compare(2, 5, 7);
    hashes.remember(10, 7);
    assert_eq!(hashes.compare_early(), []);
    assert!(!hashes.compare(2, 11, 8));
    hashes.remember(11, 7);
    assert_eq!(hashes.compare_early(), [], "it still differs");
    hashes.compare(2, 12, 8);
    hashes.forget(2);
    hashes.remember(12, 7);
    assert_eq!(hashes.compare_early(), []);
}

#[test]
fn a_peer_that_is_no_member_any_more_is_neither_named_nor_counted() {
    let mut hashes = StateHashes::default();
    (1..=2).for_each(|index| hashes.remember(index, 7));
    hashes.compare(2, 1, 8);
    hashes.compare(3, 2, 7);
    hashes.retain(|peer| peer != 2);
    assert!(!hashes.has_unjudged());
    assert_eq!(hashes.judge(1, &BTreeSet::from([1, 3]), true, &BTreeSet::new()), BTreeSet::new());
    assert!(hashes.compare(2, 1, 8), "as if it were the first");
}

#[test]
fn a_peer_that_connects_again_counts_once_it_is_equal_again() {
    let mut hashes = StateHashes::default();
    (1..=3).for_each(|index| hashes.remember(index, 7));
    let voters = BTreeSet::from([1, 2, 3]);
    hashes.compare(3, 2, 7);
    hashes.forget(3);
    hashes.compare(2, 2, 8);
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::new());
    hashes.compare(3, 3, 7);
    assert_eq!(hashes.judge(1, &voters, false, &BTreeSet::new()), BTreeSet::from([2]));
}
