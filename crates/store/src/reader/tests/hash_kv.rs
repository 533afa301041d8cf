//! HashKV at revisions where etcd answers something else than a hash of what is there.

use api::Error;

use crate::Reader;
use crate::testing::TestStore;

/// CRC-32C of the bucket's name, which is all there is to hash where there are no versions.
const NOTHING: u32 = 1_084_519_789;

/// The hash, the revision it covers and the compact revision.
fn hash(reader: &Reader, revision: i64) -> Result<(u32, i64, i64), Error> {
    let mut hashing = reader.hash_kv(revision)?;
    loop {
        if let Some(reply) = hashing.step()? {
            return Ok((reply.hash, reply.hash_revision, reply.compact_revision));
        }
    }
}

#[test]
fn negative_revisions_cover_nothing() {
    let mut bench = TestStore::new();
    bench.put("a", "1");
    assert_eq!(hash(&bench.reader, -3), Ok((NOTHING, -3, -1)));
    bench.compact(2).expect("2 is the newest");
    assert_eq!(hash(&bench.reader, -1), Ok((NOTHING, -1, 2)));
}

#[test]
fn a_compaction_leaves_the_hash_of_what_it_purged() {
    let mut bench = TestStore::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("a", ""), ("c", "a longer value")] {
        bench.put(key, value);
    }
    bench.delete("b", "");
    bench.put("a", "5");
    let before = hash(&bench.reader, 5).expect("not compacted").0;
    bench.compact(5).expect("5 is there");
    while !bench.store.purge_step(1) {}
    // Never compacted before: all there was up to then.
    assert_eq!(hash(&bench.reader, 5), Ok((before, 5, -1)));
    let whole = hash(&bench.reader, 7).expect("the newest").0;
    assert_eq!(hash(&bench.reader, 0), Ok((whole, 7, 5)));

    bench.compact(7).expect("7 is there");
    let unpurged = hash(&bench.reader, 7).expect("the compact revision");
    assert_eq!(unpurged.2, 7, "the hash is not noted before the purge is done");
    while !bench.store.purge_step(1) {}
    assert_eq!(hash(&bench.reader, 7), Ok((whole, 7, 5)));
    assert_eq!(
        hash(&bench.reader, 0),
        Ok((unpurged.0, 7, 7)),
        "only who asks for the revision gets the note"
    );
    assert_eq!(hash(&bench.reader, 5), Err(Error::Compacted));
}

#[test]
fn a_compaction_before_the_last_is_purged_leaves_no_hash() {
    let mut bench = TestStore::new();
    for value in ["1", "2", "3", "4"] {
        bench.put("a", value);
    }
    bench.compact(3).expect("3 is there");
    bench.compact(5).expect("5 is there");
    while !bench.store.purge_step(1) {}
    assert_eq!(hash(&bench.reader, 5).expect("the newest").2, 5);
}
