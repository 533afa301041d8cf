//! However a batch is sliced, it comes to the same; between slices, readers see the state before the command.

use proptest::prelude::*;

use super::*;
use crate::index::KeyBounds;
use crate::range::RangeCount;
use crate::testing::script::{ScriptStep, step};
use crate::{
    Applied, BatchContext, Event, History, KeyRange, LeaseInfo, Reader, RetainedVersion, Slice, Values,
};

fn command(bench: &TestStore, step: ScriptStep) -> Option<Command> {
    Some(match step {
        ScriptStep::Put(request) => Command::Put(request),
        ScriptStep::Delete(request) => Command::DeleteRange(request),
        ScriptStep::Txn(request) => Command::Txn(request),
        ScriptStep::Grant(id) => grant(id, 60),
        ScriptStep::Revoke(id) => revoke(id),
        ScriptStep::Compact(back) => {
            let revision = bench.reader.current_revision() - back;
            Command::Compaction(pb::CompactionRequest { revision, physical: false })
        }
        _ => return None,
    })
}

fn revoke(id: i64) -> Command {
    Command::LeaseRevoke { request: pb::LeaseRevokeRequest { id }, expiry_term: None }
}

/// What readers see, all that does not depend on the request.
#[derive(Debug, PartialEq)]
struct View {
    revision: i64,
    compacted: i64,
    hash: (crate::AppliedId, u64),
    all: crate::RangeReply,
    some: crate::RangeReply,
    counts: Vec<u64>,
    events: (Vec<Event>, i64),
    leases: Vec<(LeaseInfo, Vec<bytes::Bytes>)>,
    hash_kv: Option<crate::HashKvReply>,
    versions: Vec<RetainedVersion>,
    stream: Option<crate::StreamChunk>,
}

/// The number of keys from `a` on, counted from the beginning: a count that is known would hide what the index has now.
fn count_at(reader: &Reader, revision: i64) -> u64 {
    let state = reader.shared.state.read();
    let mut count = RangeCount::new(&state.index, &KeyBounds { start: b"a", end: None }, revision);
    std::iter::repeat_with(|| count.advance(&state.index, 4)).flatten().next().expect("it comes to an end")
}

impl View {
    fn of(bench: &TestStore) -> View {
        let reader = &bench.reader;
        let (all, some) = (range_request("a", "\0"), range_request("b", "e"));
        let from = reader.compacted().max(1);
        let everything = KeyRange { start: "a".into(), end: "\0".into() };
        let leases = reader.leases(i64::MIN, usize::MAX);
        View {
            revision: reader.current_revision(),
            compacted: reader.compacted(),
            hash: reader.state_hash(),
            all: reader.range(&all).unwrap(),
            some: reader.range(&some).unwrap(),
            counts: (from..=reader.current_revision()).map(|revision| count_at(reader, revision)).collect(),
            events: reader.events(&everything, from, usize::MAX, usize::MAX).unwrap(),
            leases: leases.into_iter().map(|lease| (lease, bench.lease_keys(lease.id))).collect(),
            hash_kv: {
                let mut scan = reader.hash_kv(0).unwrap();
                std::iter::from_fn(|| Some(scan.step())).find_map(|reply| reply.unwrap())
            },
            versions: reader.versions().next_chunk(usize::MAX).unwrap(),
            stream: reader.range_stream(&all).unwrap().next_chunk(1_000, usize::MAX).unwrap().unwrap(),
        }
    }
}

/// Applies commands slice by slice; calls `between` after each slice but the last.
fn apply_slices(
    bench: &mut TestStore,
    (ctx, commands): (BatchContext, Vec<Command>),
    mut between: impl FnMut(&TestStore),
) -> Applied {
    bench.store.begin_batch(ctx, commands);
    let mut all = Vec::new();
    loop {
        let slice = bench.store.apply_slice(&mut 0);
        bench.store.check_all();
        match slice {
            Slice::Partial { events, revision } => {
                assert_eq!(revision, bench.reader.current_revision());
                all.extend(events);
                between(bench);
            }
            Slice::NeedsValues(needed) => {
                assert!(!bench.store.is_mid_command());
                between(bench);
                let values = bench.values.read_many(&needed).expect("no value is damaged");
                bench.store.supply_values(needed.into_iter().zip(values));
            }
            Slice::Last(mut applied) => {
                all.append(&mut applied.events);
                return Applied { events: all, ..applied };
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_slice_size_comes_to_the_same(
        steps in prop::collection::vec(prop::collection::vec(step(), 1..4), 1..40),
        slice_keys in 1..7usize,
    ) {
        let mut whole = TestStore::with_slices_of(usize::MAX);
        let mut sliced = TestStore::with_slices_of(slice_keys);
        for steps in steps {
            let commands: Vec<_> = steps.into_iter().filter_map(|step| command(&whole, step)).collect();
            let is_single = commands.len() == 1;
            let view = is_single.then(|| View::of(&whole));
            let entry = sliced.entry(commands.clone());
            let got = apply_slices(&mut sliced, entry, |sliced| {
                if let Some(view) = &view {
                    assert_eq!(View::of(sliced), *view);
                }
            });
            let want = whole.apply(commands);
            prop_assert_eq!(got.outcomes, want.outcomes);
            prop_assert_eq!(got.events, want.events);
            prop_assert_eq!(got.leases, want.leases);
            prop_assert_eq!(got.revision, want.revision);
            prop_assert_eq!(View::of(&sliced), View::of(&whole));
            prop_assert_eq!(sliced.values.references(), whole.values.references());
        }
    }
}

#[test]
fn a_deletion_takes_as_many_slices_as_its_keys_need_and_is_visible_at_its_end() {
    let mut bench = TestStore::with_slices_of(10);
    bench.apply((0..95).map(|n| put(&format!("k{n:02}"), "v")).collect());
    let before = View::of(&bench);
    let mut slices = 1;
    let entry = bench.entry(vec![delete("k", "l"), put("z", "after")]);
    let applied = apply_slices(&mut bench, entry, |bench| {
        slices += 1;
        assert!(View::of(bench) == before, "a reader sees nothing of the deletion before its end");
    });
    assert_eq!(slices, 10);
    let at: Vec<_> = applied.events.iter().map(|event| event.kv.mod_revision).collect();
    let expected = (0..95).map(|sub| crate::Revision { main: before.revision + 1, sub });
    assert_eq!(at[..95], expected.collect::<Vec<_>>());
    assert_eq!(bench.reader.counts().keys, 1);
}

#[test]
fn the_keys_of_a_lease_are_deleted_in_key_order_whatever_the_slices() {
    let mut bench = TestStore::with_slices_of(4);
    bench.outcome(grant(7, 60)).unwrap();
    // Slots are given in the order of the puts, which is not that of the keys.
    for n in (0..30).map(|n| n * 7 % 30) {
        bench
            .outcome(Command::Put(pb::PutRequest { lease: 7, ..put_request(&format!("k{n:02}"), "v") }))
            .unwrap();
    }
    let before = View::of(&bench);
    let entry = bench.entry(vec![revoke(7)]);
    let applied = apply_slices(&mut bench, entry, |bench| {
        assert!(View::of(bench) == before, "the lease and its keys are there until its end");
    });
    let keys: Vec<_> = applied.events.iter().map(|event| event.kv.key.clone()).collect();
    assert_eq!(keys, (0..30).map(|n| format!("k{n:02}")).collect::<Vec<_>>());
    assert_eq!(bench.reader.lease(7), None);
}

#[test]
fn no_event_is_made_without_watchers() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    let (ctx, commands) = bench.entry(vec![put("b", "1"), delete("a", "z")]);
    let applied = bench.store.apply_batch(BatchContext { is_watched: false, ..ctx }, commands).unwrap();
    assert_eq!((applied.events.len(), applied.revision), (0, 4));
    assert_eq!(bench.reader.counts().events, 4, "they are counted all the same");
}

#[test]
fn nothing_that_is_deleted_is_collected_where_no_caller_waits() {
    for (has_caller, collected) in [(true, 9), (false, 0)] {
        let mut bench = TestStore::with_slices_of(4);
        bench.apply((0..18).map(|n| put(&format!("k{n:02}"), "v")).collect());
        bench.answers = has_caller;
        let wanted = |key, end| pb::DeleteRangeRequest { prev_kv: true, ..delete_request(key, end) };
        let nested = Request::RequestDeleteRange(wanted("k09", "l"));
        let commands =
            vec![Command::DeleteRange(wanted("k", "k09")), Command::Txn(txn(vec![], vec![nested], vec![]))];
        let entry = bench.entry(commands);
        let applied = apply_slices(&mut bench, entry, |_| {});
        let [Ok(Reply::DeleteRange(alone)), Ok(Reply::Txn(reply))] = &applied.outcomes[..] else { panic!() };
        let [crate::OpReply::DeleteRange(nested)] = &reply.replies[..] else { panic!() };
        for reply in [alone, nested] {
            assert_eq!((reply.deleted, reply.previous.len()), (9, collected), "with a caller: {has_caller}");
        }
    }
}

#[test]
fn a_damaged_value_found_during_a_batch_stops_it_before_the_command_that_compares_it() {
    // Six values of a byte are read at once.
    let mut bench = TestStore::with_slices_of(1_000);
    bench.apply((0..10).map(|n| put(&format!("k{n}"), "v")).collect());
    let address = bench.reader.range(&range_request("k9", "")).unwrap().kvs[0].value.address;
    let union = TargetUnion::Value("w".into());
    let compares = vec![compare("k", "l", CompareResult::Less, CompareTarget::Value, union)];
    let guarded = txn(compares, vec![Request::RequestPut(put_request("c", "1"))], vec![]);
    let entry = bench.entry(vec![delete("k", "k9"), Command::Txn(guarded)]);
    bench.values.damage(address, true);
    bench.store.begin_batch(entry.0, entry.1);
    let read = |bench: &mut TestStore, needed: Vec<crate::ValueRef>| {
        let values = bench.values.read_many(&needed).expect("it is not damaged");
        bench.store.supply_values(needed.into_iter().zip(values));
    };
    let Slice::NeedsValues(needed) = bench.store.apply_slice(&mut 0) else { panic!("it looks ahead") };
    assert_eq!(needed.len(), 6);
    read(&mut bench, needed);
    for _ in 0..3 {
        // Without the value, the batch looks again which it needs.
        let Slice::Partial { .. } = bench.store.apply_slice(&mut 0) else {
            panic!("it lacks the last value")
        };
        let Slice::NeedsValues(needed) = bench.store.apply_slice(&mut 0) else {
            panic!("the value is not in memory")
        };
        assert_eq!(bench.values.read_many(&needed).unwrap_err().address, address);
        assert!(bench.store.is_applying() && !bench.store.is_mid_command());
        bench.store.check();
        assert_eq!(bench.reader.counts().keys, 1, "the deletion before it is applied");
    }
    bench.values.damage(address, false);
    let Slice::Partial { .. } = bench.store.apply_slice(&mut 0) else { panic!("it lacks the last value") };
    let Slice::NeedsValues(needed) = bench.store.apply_slice(&mut 0) else {
        panic!("the value is not in memory")
    };
    read(&mut bench, needed);
    let Slice::Last(applied) = bench.store.apply_slice(&mut 0) else { panic!("it goes on") };
    let Ok(Reply::Txn(reply)) = &applied.outcomes[1] else { panic!() };
    assert!(reply.succeeded);
    assert_eq!(bench.reader.counts().keys, 2);
}
