//! Compares of transactions: how much of them a slice does, and which values are read ahead for them.

use proptest::prelude::*;

use super::*;
use crate::index::steps;
use crate::testing::script::comparing_txn;
use crate::testing::small_limits;
use crate::{Applied, Limits, Slice, ValueRef, Values};

/// Keys of a slice.
const SLICE: usize = 100;

/// What a slice visits beyond its keys at most: what is free for its last command, and the key at which it stops.
const BEYOND: usize = 16;

const KEYS: usize = 500;

/// A store of keys whose value is a byte and can be read from the disk alone, and which reads 100 bytes at once.
fn filled() -> TestStore {
    let mut bench = TestStore::within(Limits { slice_keys: SLICE, fetched_bytes: 100, ..small_limits() });
    bench.apply((0..KEYS).map(|n| put(&format!("k{n:03}"), "v")).collect());
    bench
}

/// Puts "then" and the number if `compare` holds.
fn guarded(number: usize, compares: Vec<pb::Compare>) -> Command {
    let then = put_request(&format!("then{number}"), "");
    Command::Txn(txn(compares, vec![Request::RequestPut(then)], vec![]))
}

fn values_of(key: &str, end: &str, result: CompareResult, value: &str) -> pb::Compare {
    compare(key, end, result, CompareTarget::Value, TargetUnion::Value(value.to_owned().into()))
}

/// What came of a batch, and what it took.
struct Run {
    applied: Applied,
    slices: usize,
    /// The most keys that one slice looked at, and what all did together.
    most: usize,
    total: usize,
    /// What was read each time.
    reads: Vec<Vec<ValueRef>>,
}

fn run(bench: &mut TestStore, commands: Vec<Command>, mut between: impl FnMut(&TestStore)) -> Run {
    let (ctx, commands) = bench.entry(commands);
    bench.store.begin_batch(ctx, commands);
    let (mut slices, mut most, mut total, mut reads) = (0, 0, 0, Vec::new());
    loop {
        let (slice, visits) = steps::of(|| bench.store.apply_slice(&mut 0));
        (slices, most, total) = (slices + 1, most.max(visits), total + visits);
        match slice {
            Slice::Partial { .. } => between(bench),
            Slice::NeedsValues(needed) => {
                let values = bench.values.read_many(&needed).expect("no value is damaged");
                bench.store.supply_values(needed.iter().copied().zip(values));
                between(bench);
                reads.push(needed);
            }
            Slice::Last(applied) => return Run { applied, slices, most, total, reads },
        }
    }
}

fn bytes(values: &[ValueRef]) -> u64 {
    values.iter().map(|value| u64::from(value.len)).sum()
}

#[test]
fn a_slice_visits_no_more_keys_however_many_transactions_compare_ranges() {
    const TXNS: usize = 30;
    let exists = compare("k", "l", CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(0));
    let differs = values_of("k", "l", CompareResult::NotEqual, "w");
    let greater = values_of("k", "l", CompareResult::Greater, "a");
    for (compare, reads) in [(exists, 0), (differs, 0), (greater, TXNS * KEYS)] {
        let mut bench = filled();
        let commands = (0..TXNS).map(|number| guarded(number, vec![compare.clone()])).collect();
        let run = run(&mut bench, commands, |_| {});
        assert!(run.most <= SLICE + BEYOND, "a slice looked at {} keys", run.most);
        assert!(run.total >= TXNS * KEYS, "each key is compared");
        // Once to compare, once to look ahead, and where each of the two ends.
        assert!(run.total <= TXNS * KEYS * 5 / 2, "{} visits", run.total);
        assert_eq!(run.reads.iter().map(Vec::len).sum::<usize>(), reads);
        assert_eq!(bench.reader.counts().keys, (KEYS + TXNS) as u64, "all of them hold");
    }
}

#[test]
fn compares_of_branches_that_are_not_taken_take_slices_too() {
    let compares = || (0..20).map(|_| values_of("k", "l", CompareResult::Greater, "a")).collect();
    let hidden = Request::RequestTxn(txn(compares(), vec![], vec![]));
    let mut bench = filled();
    let outer = txn(vec![], vec![], vec![hidden]);
    let run = run(&mut bench, vec![Command::Txn(outer)], |_| {});
    assert!(run.most <= SLICE + BEYOND && run.slices >= 20 * KEYS / SLICE);
    assert!(matches!(run.applied.outcomes[..], [Ok(Reply::Txn(_))]));
}

#[test]
fn operations_are_checked_in_slices_before_anything_changes() {
    let mut bench = filled();
    let before = bench.reader.state_hash();
    let ops = |last: pb::PutRequest| {
        let mut ops = vec![Request::RequestDeleteRange(delete_request("k", "l")); 1_000];
        ops.push(Request::RequestPut(last));
        Command::Txn(txn(vec![], ops, vec![]))
    };
    let unknown = pb::PutRequest { lease: 9, ..put_request("c", "") };
    let refused = run(&mut bench, vec![ops(unknown)], |bench| assert!(!bench.store.is_mid_command()));
    assert_eq!(refused.applied.outcomes, [Err(Error::LeaseNotFound)]);
    assert!(refused.slices >= 1_000 / SLICE, "{} slices", refused.slices);
    assert_eq!(bench.reader.state_hash().1, before.1);
    let mut unchanged = 0;
    run(&mut bench, vec![ops(put_request("c", ""))], |bench| {
        unchanged += usize::from(!bench.store.is_mid_command());
    });
    assert!(unchanged + 1 >= 1_000 / SLICE, "{unchanged} slices, and the one that begins to change");
    assert_eq!(bench.reader.counts().keys, 1);
}

/// Transactions with a few compares take as many slices as those with one, and those with more take more.
#[test]
fn the_first_keys_and_operations_that_a_transaction_looks_at_are_free() {
    const TXNS: usize = 2 * SLICE;
    let exists =
        || compare("k000", "", CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(0));
    let slices = |compares: usize| {
        let command = |number| guarded(number, (0..compares).map(|_| exists()).collect());
        run(&mut filled(), (0..TXNS).map(command).collect(), |_| {}).slices
    };
    // The put of each is looked at, too.
    let of_one = slices(1);
    assert_eq!(slices(3), of_one);
    assert_eq!(slices(4), of_one + TXNS / SLICE, "one of each is counted");
}

#[test]
fn values_read_ahead_stay_within_their_limit() {
    let mut bench = filled();
    bench.put("k100", &"x".repeat(1_000));
    let commands = (0..10).map(|number| {
        let (from, compares) = (format!("k{:03}", number * 20), CompareResult::Greater);
        guarded(number, vec![values_of(&from, "l", compares, "a")])
    });
    let mut most = 0;
    let run = run(&mut bench, commands.collect(), |bench| most = most.max(bench.store.fetched_bytes()));
    assert_eq!(most, 1_000, "one value that is larger is alone");
    for read in run.reads {
        assert!(bytes(&read) <= 100 || read.len() == 1, "{} bytes at once", bytes(&read));
        assert!(read.len() <= SLICE);
        assert!(read.is_sorted_by_key(|value| value.address), "neighbours are read together");
    }
    assert_eq!(bench.reader.counts().keys, KEYS as u64 + 10);
}

/// What a slice of a member does and what is read at once there.
#[test]
fn the_slices_of_a_member_have_a_thousand_keys_and_its_reads_sixteen_mebibytes() {
    const BYTES: usize = 600_000;
    let mut bench = TestStore::within(Limits::default());
    bench.apply((0..2_500).map(|n| put(&format!("s{n:04}"), "v")).collect());
    (0..30).for_each(|n| _ = bench.put(&format!("k{n:02}"), &"v".repeat(BYTES)));
    let large = guarded(0, vec![values_of("k", "l", CompareResult::Greater, "a")]);
    let small = guarded(1, vec![values_of("s", "t", CompareResult::Greater, "a")]);
    let reads = run(&mut bench, vec![large, small], |_| {}).reads;
    assert_eq!(reads[0].len(), (16 << 20) / BYTES);
    assert_eq!(reads.iter().map(Vec::len).max(), Some(1_000));
    let deleted = run(&mut bench, vec![delete("s", "t")], |_| {});
    assert_eq!(deleted.slices, 3);
}

#[test]
fn a_value_that_many_transactions_compare_is_read_once() {
    let mut bench = filled();
    let commands =
        (0..30).map(|number| guarded(number, vec![values_of("k100", "", CompareResult::Greater, "a")]));
    let run = run(&mut bench, commands.collect(), |_| {});
    assert_eq!(run.reads.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
}

#[test]
fn values_are_dropped_after_the_commands_that_they_were_read_for() {
    let mut bench = filled();
    let commands = vec![
        guarded(0, vec![values_of("k100", "k110", CompareResult::Greater, "a")]),
        delete("k", "l"),
        put("z", ""),
    ];
    let mut during = Vec::new();
    run(&mut bench, commands, |bench| {
        if bench.store.is_mid_command() {
            during.push(bench.store.fetched_bytes());
        }
    });
    assert!(during.len() >= KEYS / SLICE - 1, "the deletion takes slices");
    assert!(during.iter().all(|bytes| *bytes == 0));
}

#[test]
fn a_compare_of_a_range_computes_the_checksum_of_its_value_once_in_a_pass() {
    let mut bench = filled();
    let before = crate::compare::tests::checksums();
    let commands = vec![guarded(0, vec![values_of("k", "l", CompareResult::NotEqual, "w")])];
    let run = run(&mut bench, commands, |_| {});
    assert!(run.slices > KEYS / SLICE);
    assert_eq!(crate::compare::tests::checksums() - before, 2, "to look ahead, and to compare");
}

#[test]
fn a_transaction_that_an_alarm_refuses_waits_for_no_more_than_the_first_read_ahead() {
    let mut bench = filled();
    bench.apply((0..120).map(|n| put(&format!("a{n:03}"), "v")).collect());
    let greater = |key: &str| values_of(key, "", CompareResult::Greater, "a");
    let alarm = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id: 3,
        alarm: pb::AlarmType::Corrupt as i32,
    };
    bench.apply(vec![Command::Alarm(alarm)]);
    let mut commands: Vec<_> = (0..120).map(|n| guarded(n, vec![greater(&format!("a{n:03}"))])).collect();
    commands.push(guarded(120, vec![greater("k001")]));
    let run = run(&mut bench, commands, |_| {});
    assert!(run.applied.outcomes.iter().all(|outcome| *outcome == Err(Error::Corrupt)));
    assert_eq!(run.reads.len(), 1, "values were read when the batch began, as for any transaction");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn compares_come_to_the_same_with_any_slice_size_and_however_many_values_are_read_at_once(
        puts in prop::collection::vec((0..6usize, 0..3usize), 0..12),
        batches in prop::collection::vec(prop::collection::vec(comparing_txn(), 1..5), 1..6),
        slice_keys in 1..7usize,
        fetched_bytes in 0..12u64,
    ) {
        let (keys, values) = (["a", "b", "c", "d", "dd", "e"], ["", "one", "two!"]);
        let mut whole = TestStore::within(Limits {
            slice_keys: usize::MAX,
            fetched_bytes: u64::MAX,
            ..small_limits()
        });
        let mut sliced = TestStore::within(Limits { slice_keys, fetched_bytes, ..small_limits() });
        let puts: Vec<_> = puts.into_iter().map(|(key, value)| put(keys[key], values[value])).collect();
        whole.apply(puts.clone());
        sliced.apply(puts);
        for batch in batches {
            let commands: Vec<_> = batch.into_iter().map(Command::Txn).collect();
            let (ctx, entry) = whole.entry(commands.clone());
            let want = whole.store.apply_batch(ctx, entry).expect("no value is damaged");
            let got = run(&mut sliced, commands, |bench| bench.store.check_all());
            for (got, want) in got.applied.outcomes.iter().zip(&want.outcomes) {
                prop_assert_eq!(got, want);
            }
            prop_assert_eq!(sliced.reader.state_hash(), whole.reader.state_hash());
            prop_assert_eq!(sliced.values.references(), whole.values.references());
        }
    }
}
