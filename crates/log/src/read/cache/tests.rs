//! The cache alone: bounded, scan-resistant, equal in equal runs.

use super::*;

const CAPACITY: u64 = 64 << 10;

/// The key of value `number`.
fn stored(number: u64, len: u32) -> StoredValue {
    StoredValue { address: (7 << 32) + number * 4096, len, checksum: number as u32 }
}

fn bytes(number: u64, len: u32) -> Vec<u8> {
    vec![number as u8; len as usize]
}

/// Reads a value as a range does, and inserts it on a miss. Returns whether it was a hit.
fn ask(cache: &ValueCache, number: u64, len: u32) -> bool {
    let mut into = vec![0xee; len as usize];
    let mut slots = [ReadSlot { value: stored(number, len), into: &mut into }];
    let found = cache.fill(&mut slots) == 0;
    if !found {
        slots[0].into.copy_from_slice(&bytes(number, len));
        cache.insert(&slots);
    }
    assert_eq!(into, bytes(number, len));
    found
}

#[test]
fn memory_stays_below_the_capacity() {
    let cache = ValueCache::new(CAPACITY);
    for number in 0..10_000 {
        ask(&cache, number, (number % 900) as u32 + 1);
        assert!(cache.bytes() <= CAPACITY);
    }
    assert!(cache.bytes() > CAPACITY / 2, "{} bytes are used", cache.bytes());
}

#[test]
fn values_read_often_survive_values_read_once() {
    let cache = ValueCache::new(CAPACITY);
    let popular = 0..60;
    for _ in 0..3 {
        popular.clone().for_each(|number| _ = ask(&cache, number, 256));
    }
    (1_000..5_000).for_each(|number| _ = ask(&cache, number, 256));
    let left = popular.filter(|number| ask(&cache, *number, 256)).count();
    assert!(left >= 50, "{left} of 60 are left");
}

#[test]
fn equal_reads_hit_equal_values() {
    let run = || {
        let cache = ValueCache::new(CAPACITY);
        (0..5_000_u64).map(|step| ask(&cache, step * step * 31 % 997, 200)).collect::<Vec<bool>>()
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.contains(&true));
}

#[test]
fn large_values_are_not_cached_and_a_capacity_of_zero_caches_nothing() {
    let cache = ValueCache::new(CAPACITY);
    let large = MAX_VALUE_BYTES as u32 + 1;
    assert_eq!([ask(&cache, 1, large), ask(&cache, 1, large)], [false, false]);
    assert_eq!([ask(&cache, 2, 256), ask(&cache, 2, 256)], [false, true]);
    let none = ValueCache::new(0);
    assert_eq!([ask(&none, 2, 256), ask(&none, 2, 256)], [false, false]);
}

#[test]
fn another_value_at_the_same_address_is_a_miss() {
    let cache = ValueCache::new(CAPACITY);
    ask(&cache, 1, 256);
    let other = [StoredValue { checksum: 2, ..stored(1, 256) }, StoredValue { len: 255, ..stored(1, 256) }];
    for value in other {
        let mut into = vec![0; value.len as usize];
        assert_eq!(cache.fill(&mut [ReadSlot { value, into: &mut into }]), 1);
    }
}

#[test]
fn unfilled_slots_come_first() {
    let large = MAX_VALUE_BYTES as u32 + 1;
    for count in [MAX_HOLD_VALUES as u64, 2 * MAX_HOLD_VALUES as u64 + 7] {
        let cache = ValueCache::new(CAPACITY);
        let len = |number: u64| if number % 7 == 5 { large } else { 64 };
        let is_kept = |number: u64| !number.is_multiple_of(3) && len(number) != large;
        (0..count).filter(|number| is_kept(*number)).for_each(|number| _ = ask(&cache, number, 64));
        let mut room: Vec<_> = (0..count).map(|number| vec![0xee; len(number) as usize]).collect();
        let slot = |(into, number): (_, u64)| ReadSlot { value: stored(number, len(number)), into };
        let mut slots: Vec<_> = room.iter_mut().map(Vec::as_mut_slice).zip(0..).map(slot).collect();
        let open = cache.fill(&mut slots);
        let number = |slot: &ReadSlot<'_>| u64::from(slot.value.checksum);
        let mut left: Vec<u64> = slots[..open].iter().map(number).collect();
        left.sort_unstable();
        assert_eq!(left, (0..count).filter(|number| !is_kept(*number)).collect::<Vec<u64>>());
        assert!(slots[..open].iter().all(|slot| slot.into.iter().all(|byte| *byte == 0xee)));
        assert!(slots[open..].iter().all(|slot| *slot.into == *bytes(number(slot), 64)));
    }
}
